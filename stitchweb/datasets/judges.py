"""A team's judge, as reviews ask for it: the active version, read from its stored scores."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from agents.judges import Judgement
from agents.rubric import DIMENSIONS
from stitchweb.datasets.models import Judge, Score, WorkState
from stitchweb.review.judge import JudgeScore
from stitchweb.teams.models import Team

HACK = 0.5  # chance from which a judge calls it a major hack


class StoredJudge:
    """The stored scores of one version."""

    def __init__(self, row: Judge) -> None:
        self.row = row
        self.name = str(row)

    def scores(self, team: Team, contents: Collection[str]) -> Mapping[str, JudgeScore]:
        """As `stitchweb.review.judge.Judge`. A query per thousand contents."""
        wanted, found = sorted(contents), {}
        for start in range(0, len(wanted), 900):
            rows = Score.objects.filter(judge=self.row, sha256__in=wanted[start : start + 900])
            found |= {row.sha256: score_of(Judgement.model_validate(row.judgement)) for row in rows}
        return found


def score_of(judgement: Judgement) -> JudgeScore:
    """What of a judgement stands beside a label."""
    levels = {key: judgement.level(key) for key in DIMENSIONS}
    spread = {key: f"{judgement.low.get(key, levels[key])}–{judgement.high.get(key, levels[key])}" for key in DIMENSIONS}
    said = " ".join(
        f"{key.replace('_', ' ')}: {judgement.rationale[key]}" for key in DIMENSIONS if judgement.rationale.get(key)
    )
    word = "major" if judgement.hack >= HACK else "none"
    between = ", ".join(f"{key.replace('_', ' ')} {spread[key]}" for key in DIMENSIONS)
    cover = f" Intervals ({100 * judgement.coverage:.0f} %): {between}." if judgement.coverage else ""
    return JudgeScore(levels, word, f"Chance of a major hack {100 * judgement.hack:.0f} %. {said}{cover}", judgement.apart)


def team_judge(team: Team) -> StoredJudge | None:
    """The active judge of a team, None where it has none that may score or rank. One query."""
    row = Judge.objects.filter(team=team, active=True, state=WorkState.DONE).exclude(gate="nothing").first()
    return StoredJudge(row) if row else None
