"""The team's judge on candidates of runs: asked in the agent worker, once for each content, and stored.

What it broke on is stored as that, with the reason: nothing takes a score's place. A local judge scores every candidate that is
done. A model judge costs questions, so it is asked about verified ones alone, when their run has ended, and about none that was
there before it was chosen.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import lru_cache, partial
from typing import Any

from django.core.files.storage import default_storage
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from agents.events import CandidateView, View
from agents.judges import Case, Judgement
from agents.judges import model as voting
from agents.judges.local import score as by_weights
from gpu_runner.hands import Cancelled
from stitchweb.datasets.configs.data import case_of
from stitchweb.datasets.judges import chosen
from stitchweb.datasets.models import Judge, Reference, Score, ScoredRun
from stitchweb.datasets.progress import Refused
from stitchweb.datasets.services.asking import asker, material
from stitchweb.datasets.services.collect import record_of, texts_of
from stitchweb.review.services.ordering import order_queues
from stitchweb.review.services.projects import content_sha256
from stitchweb.runs import dispatch
from stitchweb.runs.history import view_of
from stitchweb.runs.models import ENDED, Run
from stitchweb.teams.models import Team

logger = logging.getLogger(__name__)

SCORE_RUN = "stitchweb.score_run"
ORDER_QUEUES = "stitchweb.order_queues"
AT_ONCE = 50  # runs sent with one sweep
PATIENCE = timedelta(minutes=30)  # before a run that nobody has scored is sent once more: a model takes its time
Ask = Callable[[Case], Judgement]


class Broke(Exception):
    """The judge gave no score. The message is a sentence for people."""


def settled(candidate: CandidateView) -> bool:
    """Whether nothing more is measured of it, so that there is a whole to score."""
    return bool(candidate.files and (candidate.verdict or candidate.status == "done"))


def asked_about(row: Judge, candidate: CandidateView) -> bool:
    """Whether the judge is asked about such a candidate at all."""
    return settled(candidate) and (row.kind == "local" or candidate.verdict == "verified")


def score_run(run: Run) -> int:
    """Have the team's judge score the run's candidates that are done; how many scores came. Nothing without a judge."""
    row = chosen([run.team_id]).get(run.team_id)
    if row is None:
        return 0
    view = view_of(run.pk)
    some = [cid for cid, candidate in view.candidates.items() if asked_about(row, candidate)]
    before = Score.objects.filter(judge=row).count()
    scores_of(row, run, some)
    if run.ended:
        ScoredRun.objects.update_or_create(judge=row, run=run, defaults={"done": True})
    came = Score.objects.filter(judge=row).count() - before
    if came:
        order_queues(run.team)
    return came


def scores_of(
    row: Judge, run: Run, candidates: Sequence[str], cancelled: Callable[[], bool] = lambda: False
) -> Mapping[str, Score]:
    """The judge's scores of these candidates of the run, by candidate; it is asked for those that it has not given. `Cancelled`
    when that turned true in between."""
    view = view_of(run.pk)
    contents = {cid: content_sha256(view, view.candidates[cid]) for cid in candidates if cid in view.candidates}
    known = {score.sha256: score for score in Score.objects.filter(judge=row, sha256__in=set(contents.values()))}
    ask: Ask | None = None
    for cid, sha256 in contents.items():
        if sha256 in known:
            continue
        if cancelled():
            raise Cancelled
        try:
            ask = ask or _asking(row, run)
            judgement = ask(_case(run, view, view.candidates[cid]))
            fresh = Score(judge=row, sha256=sha256, judgement=judgement.stored, apart=judgement.apart)
        except Broke as error:
            fresh = Score(judge=row, sha256=sha256, broken=str(error)[:400])
        Score.objects.bulk_create([fresh], ignore_conflicts=True)  # another worker may have been asked the same
        known[sha256] = Score.objects.get(judge=row, sha256=sha256)
    return {cid: known[sha256] for cid, sha256 in contents.items()}


def _case(run: Run, view: View, candidate: CandidateView) -> Case:
    """The candidate as the judge saw those that it was made and calibrated on."""
    number = list(view.candidates).index(candidate.id) + 1
    reference = Reference(team_id=run.team_id, sha256=run.revision.sha256)
    record = record_of(run.team, run, reference, view, candidate, number)
    texts = texts_of({*record.files.values(), *record.parent_files.values()})
    told: dict[str, Any] = {
        "asked": record.asked, "measured": record.measured, "facts": record.facts, "inputs": record.inputs,
        "skill": record.skill, "target": record.target,
        "files": {path: texts[sha] for path, sha in record.files.items() if sha in texts},
        "parent_files": {path: texts[sha] for path, sha in record.parent_files.items() if sha in texts},
    }  # fmt: skip
    if not told["files"]:
        raise Broke("The candidate's files are not stored here any more.")
    return case_of(run.revision.text, told)


def _asking(row: Judge, run: Run) -> Ask:
    """How the judge is asked. `Broke` where it cannot be asked at all."""
    if row.kind == "local":
        weights = _read(row.file, row.sha256)

        def locally(case: Case) -> Judgement:
            try:
                return by_weights(weights, case)
            except (KeyError, ValueError, IndexError) as error:
                raise Broke(f"It cannot score with what it learnt: {error}.") from error

        return locally
    rubric, shots = material(_read(row.file, row.sha256))
    known = Reference.objects.filter(team=run.team_id, sha256=run.revision.sha256).first()
    group = known.group if known else ""
    # A reference that nobody has placed yet is held against the examples by its text alone.
    shots = [shot for shot in shots if shot.case.reference != run.revision.text]
    try:
        ask = asker(row)
    except Refused as refusal:
        raise Broke(str(refusal)) from refusal
    return partial(_by_model, ask, rubric, shots, group, int(row.recipe["votes"]))


def _by_model(
    ask: voting.Ask, rubric: Mapping[str, Any], shots: Sequence[voting.Shot], group: str, votes: int, case: Case
) -> Judgement:
    try:
        return voting.judge(ask, rubric, case, shots, group, votes)
    except (voting.BrokenJudge, Refused) as error:
        raise Broke(f"{error}") from error


@lru_cache(maxsize=4)
def _read(file: str, sha256: str) -> Mapping[str, Any]:
    """What the judge is made of; kept, for a run asks candidate by candidate."""
    if not file:
        raise Broke("It was made before what it is asked with was kept: make a new version of it.")
    try:
        with default_storage.open(file) as stored:
            found: dict[str, Any] = json.loads(stored.read())
    except (OSError, ValueError) as error:
        raise Broke(f"What it is made of cannot be read ({type(error).__name__}): make a new version of it.") from error
    return found


def score_soon(run: Run, **_: Any) -> None:
    """Send a run to the agent worker: as its candidates are decided on, where the judge costs nothing, and when it has ended.
    One query for a team without a judge."""
    row = chosen([run.team_id]).get(run.team_id)
    if row is None or not (run.ended or row.kind == "local"):
        return
    if run.ended:  # the outbox knows of it, so that a sweep does not send it a second time meanwhile
        ScoredRun.objects.get_or_create(judge=row, run=run)
    dispatch.send_on_commit(SCORE_RUN, dispatch.AGENTS_QUEUE, pk=run.pk)


def order_soon(team: int) -> None:
    """Have the agent worker order the team's queues, where a judge may."""
    if chosen([team]):
        dispatch.send_on_commit(ORDER_QUEUES, dispatch.AGENTS_QUEUE, pk=team)


def send_unscored(**_: Any) -> None:
    """With each sweep: ended runs that the teams' judges have not scored are sent, and again where nobody did it. Two queries
    where no team has a judge or there is nothing."""
    now = timezone.now()
    for row in Judge.objects.filter(active=True).exclude(gate="nothing").defer("figures"):
        with transaction.atomic():
            fresh = list(_unscored(row)[:AT_ONCE])
            ScoredRun.objects.bulk_create((ScoredRun(judge=row, run=run, sent_at=now) for run in fresh), ignore_conflicts=True)
            lost = ScoredRun.objects.filter(judge=row, done=False, sent_at__lt=now - PATIENCE).values_list("run", flat=True)
            late = list(lost[:AT_ONCE])
            ScoredRun.objects.filter(judge=row, run__in=late).update(sent_at=now)
            for pk in [*(run.pk for run in fresh), *late]:
                dispatch.send_on_commit(SCORE_RUN, dispatch.AGENTS_QUEUE, pk=pk)


def _unscored(row: Judge) -> QuerySet[Run]:
    """Ended runs with candidates that the judge was not sent yet. A local judge scored all there were when it was made."""
    since = row.created_at if row.kind == "local" else row.chosen_at or timezone.now()
    known = ScoredRun.objects.filter(judge=row).values("run")
    runs = Run.objects.filter(team=row.team_id, status__in=ENDED, candidates__gt=0, ended_at__gte=since)
    return runs.exclude(pk__in=known).order_by("pk")


def order_all(**_: Any) -> None:
    """Once an hour: what labels and scores have come since may change the order of queues."""
    for pk in Judge.objects.filter(active=True).exclude(gate="nothing").values_list("team", flat=True):
        dispatch.send_on_commit(ORDER_QUEUES, dispatch.AGENTS_QUEUE, pk=pk)


def order_team(pk: int) -> None:
    team = Team.objects.filter(pk=pk).first()
    if team:
        order_queues(team)
