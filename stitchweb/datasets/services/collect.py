"""A record per candidate, out of the runs' own events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from agents.events import CandidateView, View
from agents.likeness import candidate_norm_sha256
from agents.readings import agrees, facts, speeds, times
from gpu_runner.contracts import TimingReport
from stitchweb.datasets.models import UNKNOWN_LICENCE, Keyring, Record, Reference
from stitchweb.datasets.progress import Tell, silent
from stitchweb.programs.models import Revision
from stitchweb.review.groups import group_of
from stitchweb.review.services.projects import content_sha256
from stitchweb.runs import blobs
from stitchweb.runs.history import view_of
from stitchweb.runs.models import ENDED, Blob, Run
from stitchweb.runs.rail import decision_of
from stitchweb.teams.models import Team

AT_ONCE = 100
OURS = "Apache-2.0"  # of examples, gold items and what generators here write


def collect(team: Team, tell: Tell = silent) -> int:
    """Records of all candidates of ended runs that have none yet; how many came. A handful of queries per run."""
    known = Record.objects.filter(team=team).order_by().values("run")
    runs = Run.objects.filter(team=team, status__in=ENDED, candidates__gt=0).exclude(pk__in=known)
    keys = list(runs.order_by("pk").values_list("pk", flat=True))
    made = 0
    for start in range(0, len(keys), AT_ONCE):
        tell("Reading runs", start, len(keys))
        some = Run.objects.filter(pk__in=keys[start : start + AT_ONCE]).select_related("revision__program")
        with transaction.atomic():
            made += len(_of_runs(team, list(some)))
    return made


def _of_runs(team: Team, runs: list[Run]) -> list[Record]:
    references = {run.pk: reference_of(team, run.revision) for run in runs}
    rows = [
        record_of(team, run, references[run.pk], view, candidate, number)
        for run in runs
        for view in [view_of(run.pk)]
        for number, candidate in enumerate(view.candidates.values(), 1)
        if candidate.files and (candidate.verdict or candidate.status == "done")
    ]
    texts = texts_of({sha for row in rows for sha in row.files.values()})
    for row in rows:
        row.norm_sha256 = candidate_norm_sha256({path: texts.get(sha, sha) for path, sha in row.files.items()})
    made = Record.objects.bulk_create(rows, ignore_conflicts=True)
    changed(team)
    return made


def changed(team: Team) -> None:
    """Records of the team came or changed. Inside of the transaction that changes them."""
    Keyring.objects.update_or_create(team=team, defaults={"records_at": timezone.now()})


def reference_of(team: Team, revision: Revision) -> Reference:
    """The team's row of this text; a new one stands alone until groups are made."""
    digest = group_of(revision.text)
    found, _ = Reference.objects.get_or_create(
        team=team, sha256=revision.sha256,
        defaults={"revision": revision, "ast_sha256": digest, "group": "", "split": "train",
                  "license": OURS if revision.program.synthetic else UNKNOWN_LICENCE},
    )  # fmt: skip
    return found


def texts_of(digests: Iterable[str]) -> dict[str, str]:
    """The texts behind these digests; those whose blob is gone are left out. A query per thousand."""
    wanted, found = sorted(digests), {}
    for start in range(0, len(wanted), 900):
        for blob in Blob.objects.filter(pk__in=wanted[start : start + 900]):
            try:
                found[blob.pk] = blobs.read(blob).decode("utf-8", "replace")
            except OSError:
                continue  # the storage lost it
    return found


def record_of(team: Team, run: Run, reference: Reference, view: View, candidate: CandidateView, number: int) -> Record:
    """The record of a candidate, not stored, without `norm_sha256`. `number`: its place in the run."""
    timing = candidate.confirmed or candidate.timing
    parent = view.candidates.get(candidate.parent or "")
    engineers = view.header.engineers if view.header else {}
    elsewhere = run.sentence.startswith("Brought in")
    origin = "synthetic" if run.synthetic else "elsewhere" if elsewhere else "run"
    return Record(
        team=team, run=run, reference=reference, candidate=candidate.id, parent=candidate.parent or "", number=number,
        sha256=content_sha256(view, candidate), skill=candidate.skill, engineer=engineers.get("coder") or run.engineer,
        target=run.target, origin=origin, verdict=candidate.verdict or "",
        files={path: ref.sha256 for path, ref in candidate.files.items()},
        parent_files={path: ref.sha256 for path, ref in parent.files.items()} if parent else {},
        asked=_asked(view, candidate), measured=_measured(candidate, timing),
        facts=facts(candidate.rows, timing, (candidate.check or {}).get("coverage")),
        inputs=_inputs(candidate, timing), ended_at=_ended(run),
    )  # fmt: skip


def _ended(run: Run) -> datetime:
    return run.ended_at or run.changed_at


def _asked(view: View, candidate: CandidateView) -> dict[str, Any]:
    """What the Coder was asked for: the plan's item, and for a feedback-driven candidate what was said of its parent."""
    todo = next((t for t in view.plan.todos if t.id == candidate.todo), None) if view.plan else None
    decision = decision_of(view, candidate.parent) if candidate.skill == "feedback" and candidate.parent else None
    points = list(todo.constraints) if todo else []
    if decision:
        points = [p for p in (decision.sentence, *decision.evidence, *decision.suggestions) if p]
    parent = view.candidates.get(candidate.parent or "")
    before = (parent.confirmed or parent.timing) if parent else None
    return {
        "task": todo.title if todo else "",
        "points": points,
        "bottleneck": decision.bottleneck if decision else "",
        "parent_speedup": before.over_eager.value if before and before.over_eager else None,
    }


def _measured(candidate: CandidateView, timing: TimingReport | None) -> dict[str, Any]:
    check = candidate.check or {}
    device = timing.device if timing else None
    return {
        "built": bool((candidate.build or {}).get("ok", bool(candidate.verdict))),
        "error_ratio": check.get("error_ratio"),
        "signal_error": check.get("signal_error"),
        "coverage": check.get("coverage"),
        "rows_failed": check.get("failed"),
        **times(timing),
        "device": device.name if device else "",
        "cuda": device.runtime if device else "",
    }


def _inputs(candidate: CandidateView, timing: TimingReport | None) -> dict[str, Any]:
    """Of `agents.reward.Inputs`, all but the labels' part."""
    verdict = candidate.verdict or ""
    return {
        "skill": candidate.skill,
        "verified": verdict == "verified",
        "outputs_agree": agrees(candidate.rows, verdict == "verified"),
        "hack_found": verdict.startswith("hack"),
        **speeds(timing),
    }


def records_of(team: Team) -> Iterator[Record]:
    """All of the team's records with run and reference, in the order of their making."""
    rows = Record.objects.filter(Q(team=team)).select_related("reference", "run").order_by("pk")
    yield from rows.iterator(chunk_size=1000)


def inputs_with(inputs: Mapping[str, Any], levels: Mapping[str, float | None], hack_level: str) -> dict[str, Any]:
    """A record's inputs with the labels' part."""
    return {**inputs, "levels": dict(levels), "hack_level": hack_level}
