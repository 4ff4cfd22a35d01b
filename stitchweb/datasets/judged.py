"""What the team's judge says of a candidate of a run, as a page may tell it."""

from __future__ import annotations

from dataclasses import dataclass

from agents.events import CandidateView, View
from agents.judges import Judgement, Line
from agents.rubric import DIMENSIONS, LEVELS
from stitchweb.datasets.judges import chosen
from stitchweb.datasets.models import Judge, Score, Shown
from stitchweb.datasets.services.scoring import asked_about, settled
from stitchweb.review.access import blind_to
from stitchweb.review.models import Assignment, Held
from stitchweb.review.permissions import SCORE
from stitchweb.review.services.projects import content_sha256
from stitchweb.runs.models import Run
from stitchweb.teams.access import may
from stitchweb.teams.models import User

NAMES = dict(zip(DIMENSIONS, ("Anti-hacking", "CUDA engineering", "Operator coverage", "Skill compliance"), strict=True))
HEIGHT = 20  # of the tallest bar
CLOSED = "You may still be asked to label the same candidate, so what a judge says of it opens to you after that."


@dataclass(frozen=True)
class Bar:
    """A level's chance, drawn as high as it is likely."""

    level: int
    chance: float
    x: int
    y: float
    height: float
    on: bool


@dataclass(frozen=True)
class Dimension:
    """`level`: the median; `low` to `high`: the interval of levels, `coverage` of it stands in the judgement."""

    name: str
    level: int
    low: int
    high: int
    bars: tuple[Bar, ...]
    rationale: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Judged:
    """Of one candidate. `tells`: its scores may be shown; `judgement` None: there is none, and `why` says why; `comes`: it may
    come soon."""

    judge: str
    tells: bool
    candidate: str
    judgement: Judgement | None
    dimensions: tuple[Dimension, ...]
    why: str
    broken: bool
    comes: bool


def judged_of(user: User, run: Run, view: View, cid: str) -> Judged | None:
    """What may be told to the person of a candidate; None where the team has no judge. That scores were shown to somebody who
    may yet be asked to label such a candidate is noted, for their label is not blind then. Five queries at most."""
    row = chosen([run.team_id]).get(run.team_id)
    candidate = view.candidates.get(cid)
    if row is None or candidate is None:
        return None
    sha256 = content_sha256(view, candidate)
    score = Score.objects.filter(judge=row, sha256=sha256).first()
    tells = row.gate == "score"
    if blind_to(user).filter(sha256=sha256).exists():  # another run may hold what they are to label
        return Judged(str(row), tells, cid, None, (), CLOSED, False, False)
    judgement = Judgement.model_validate(score.judgement) if score and not score.broken and tells else None
    if judgement is not None:
        _note(user, run, sha256)
    why, comes = _why_not(row, run, candidate, score)
    dimensions = tuple(_dimension(judgement, key) for key in DIMENSIONS) if judgement else ()
    return Judged(str(row), tells, cid, judgement, dimensions, why, bool(score and score.broken), comes)


def _note(user: User, run: Run, sha256: str) -> None:
    if not may(user, run.team_id, SCORE):
        return
    labelled = Assignment.objects.filter(user=user, item__sha256=sha256, state=Held.SUBMITTED)
    if not labelled.exists():
        Shown.objects.get_or_create(user=user, sha256=sha256)


def _why_not(row: Judge, run: Run, candidate: CandidateView, score: Score | None) -> tuple[str, bool]:
    """Why there is no score, and whether one may come soon; nothing where there is one."""
    if score is not None:
        return (f"It broke: {score.broken.rstrip('.')}.", False) if score.broken else ("", False)
    if not settled(candidate):
        return ("It scores a candidate once that is decided on.", not run.ended)
    if not asked_about(row, candidate):
        return ("It is asked about verified candidates alone, for each costs questions to a model.", False)
    since = row.created_at if row.kind == "local" else row.chosen_at
    if run.ended_at is not None and (since is None or run.ended_at < since):
        return ("It has not scored this candidate: the run ended before it was the team’s judge.", False)
    return ("It has not scored this candidate yet.", True)


def _dimension(judgement: Judgement, key: str) -> Dimension:
    level, chances = judgement.level(key), judgement.levels[key]
    most = max(chances)
    bars = tuple(
        Bar(at, chance, 14 * (at - 1), round(HEIGHT * (1 - chance / most), 1), round(HEIGHT * chance / most, 1), at == level)
        for at, chance in zip(LEVELS, chances, strict=True)
    )
    lines = tuple(line for line in judgement.lines if line.dimension == key)
    return Dimension(
        NAMES[key], level, judgement.low.get(key, level), judgement.high.get(key, level), bars,
        judgement.rationale.get(key, ""), lines,
    )  # fmt: skip
