"""A team's judge, as reviews and runs ask for it: the active version."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from agents.judges import Judgement
from agents.rubric import DIMENSIONS
from agents.state import Rating
from stitchweb.datasets.models import Judge, Score, Shown, WorkState
from stitchweb.review.judge import JudgeScore
from stitchweb.runs.models import Run
from stitchweb.teams.models import Team, User

HACK = 0.5  # chance from which a judge calls it a major hack


class StoredJudge:
    """The scores of one version."""

    def __init__(self, row: Judge) -> None:
        self.row = row
        self.name = str(row)
        self.tells = row.gate == "score"

    def scores(self, team: Team, contents: Collection[str]) -> Mapping[str, JudgeScore]:
        """As `stitchweb.review.judge.Judge`. A query per thousand contents."""
        wanted, found = sorted(contents), {}
        for start in range(0, len(wanted), 900):
            rows = Score.objects.given().filter(judge=self.row, sha256__in=wanted[start : start + 900])
            found |= {row.sha256: score_of(Judgement.model_validate(row.judgement)) for row in rows}
        return found

    def rate(self, run: int, candidates: Sequence[str], cancelled: Callable[[], bool]) -> Sequence[Rating]:
        """As `stitchweb.runs.judged.TeamJudge`."""
        from stitchweb.datasets.services.scoring import scores_of

        row = Run.objects.select_related("revision").get(pk=run)
        return [_rating(cid, self.name, score) for cid, score in scores_of(self.row, row, candidates, cancelled).items()]


def _rating(cid: str, name: str, score: Score) -> Rating:
    merit = None if score.broken else Judgement.model_validate(score.judgement).merit
    return Rating(candidate=cid, judge=name, merit=merit, broken=score.broken)


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
    return JudgeScore(
        levels, word, f"Chance of a major hack {100 * judgement.hack:.0f} %. {said}{cover}", judgement.apart, judgement.doubt
    )


def chosen(teams: Collection[int]) -> Mapping[int, Judge]:
    """The active judges of teams, of those that have one which may at least rank. One query."""
    rows = Judge.objects.filter(team__in=teams, active=True, state=WorkState.DONE).exclude(gate="nothing")
    return {row.team_id: row for row in rows.defer("figures")}


def judges_of(teams: Collection[int]) -> Mapping[int, StoredJudge]:
    """As `stitchweb.runs.judged.Finder`."""
    return {team: StoredJudge(row) for team, row in chosen(teams).items()}


def team_judge(team: Team) -> StoredJudge | None:
    """The active judge of a team, None where it has none that may score or rank. One query."""
    return judges_of([team.pk]).get(team.pk)


def was_read(user: User, sha256: str) -> bool:
    """As `stitchweb.review.judge.Read`."""
    return Shown.objects.filter(user=user, sha256=sha256).exists()
