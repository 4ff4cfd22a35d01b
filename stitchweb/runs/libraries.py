"""Libraries that hosts for builds made: kept as a file of the build's job, lent to the runner that measures the same kernels.

They can be made again at any time, so they go a day after their run has ended.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.core.files.storage import default_storage
from django.db.models import QuerySet
from django.utils import timezone

from gpu_runner.broker import BUILD_QUEUE
from gpu_runner.contracts import BuildReport, Library
from gpu_runner.contracts.candidate import LIBRARY_FILE, MODEL_FILE
from stitchweb.runs.models import ENDED, Artifact, Job, JobState, Runner, RunnerState

KEPT = timedelta(days=1)  # after the end of a run: checks of it are made again at once, or hardly ever


def wanted(job: Job) -> bool:
    """Whether the library that the job builds is for another host."""
    return job.kind == "build" and job.queue == BUILD_QUEUE


def of(job: Job) -> Artifact | None:
    """What a host for builds made of the kernels that the job measures; None where there is nothing. One query for a job with
    a candidate in a run.

    The run's own and no other's: looked for among the builds of the same candidate or, for an engineer's tasks, of its step.
    A host that was quarantined or removed since is believed no more, whatever the reason was.
    """
    kernels = _kernels(job.task)
    if job.task.get("kind") not in ("check", "time", "profile") or job.run_id is None or not kernels:
        return None
    built = Artifact.objects.filter(
        name=LIBRARY_FILE, job__run=job.run_id, job__kind="build", job__queue=BUILD_QUEUE, job__state=JobState.DONE,
        job__candidate=job.candidate, job__within=job.within,
        job__worker__in=Runner.objects.exclude(state=RunnerState.QUARANTINED).values("name"),
    )  # fmt: skip
    rows = built.select_related("job").order_by("-pk")
    for row in rows:
        if _kernels(row.job.task) == kernels and row.job.task["target"] == job.task["target"]:
            return row
    return None


def named(row: Artifact | None) -> dict[str, Any] | None:
    """What the runner is told of it, as `contracts.Library`."""
    if row is None or row.job.report is None:
        return None
    return Library(sha256=row.sha256, report=BuildReport.model_validate(row.job.report)).model_dump(mode="json")


def forget() -> int:
    """Those of runs that ended a while ago; how many went."""
    old = Artifact.objects.filter(
        name=LIBRARY_FILE, job__queue=BUILD_QUEUE, job__run__status__in=ENDED, job__run__ended_at__lt=timezone.now() - KEPT
    )
    return drop(old)


def drop(rows: QuerySet[Artifact]) -> int:
    """Delete these files; how many there were. One query where there is none."""
    count = 0
    for row in rows.iterator(500):
        name = row.file.name
        row.delete()  # the row first: a file without a row is found by nobody
        default_storage.delete(name)
        count += 1
    return count


def _kernels(task: dict[str, Any]) -> dict[str, str]:
    """What a library is made from: all of a candidate but its Python. Empty where the task has none."""
    files = (task.get("candidate") or {}).get("files", {})
    return {path: text for path, text in files.items() if path != MODEL_FILE}
