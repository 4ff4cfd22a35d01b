"""Who is there to work: what runners say of themselves, beside what their jobs say of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Avg, Count, DurationField, ExpressionWrapper, F, Max, Q
from django.utils import timezone

from gpu_runner.broker import PRESENT_EVERY_S
from stitchweb.runs.models import Job, JobState, Runner

SHOWN = timedelta(hours=24)
KEPT = timedelta(days=7)
PRESENT = timedelta(seconds=3 * PRESENT_EVERY_S)  # two words may be lost
STARTING = timedelta(seconds=30)  # from a runner's start to its first word: some seconds on a machine that has other work, too


@dataclass(frozen=True)
class RunnerRow:
    """A runner on one queue. `heard_at`: its last word or claim. `mean_s` is None until a job was done."""

    name: str
    queue: str
    heard_at: datetime
    present: bool
    starting: bool = False
    working: int = 0
    done: int = 0
    failed: int = 0
    mean_s: float | None = None

    @property
    def state(self) -> str:
        if self.working:
            return "working"
        if self.starting:
            return "starting"
        return "idle" if self.present else "not heard of"


def heard(name: str, queues: list[str]) -> None:
    """The runner is there now. One query, two the first time."""
    Runner.objects.update_or_create(name=name[:120], defaults={"queues": queues, "heard_at": timezone.now(), "starting": False})


def started(name: str, queues: list[str]) -> None:
    """The runner's process begins now; until it has said something, it is on its way."""
    Runner.objects.update_or_create(name=name[:120], defaults={"queues": queues, "heard_at": timezone.now(), "starting": True})


def works(job: Job) -> None:
    """The job's runner is there: it took the job, or goes on with it. While it is busy it says nothing else. Two queries."""
    at = timezone.now()
    Runner.objects.get_or_create(name=job.worker, defaults={"queues": [job.queue], "heard_at": at})
    Runner.objects.filter(name=job.worker).update(heard_at=at, starting=False)


def forget() -> None:
    Runner.objects.filter(heard_at__lt=timezone.now() - KEPT).delete()


def there() -> dict[str, bool]:
    """The queues that have a runner now, be it idle or at work (True), or one that is starting (False). One query."""
    now = timezone.now()
    said = Runner.objects.filter(heard_at__gte=now - PRESENT).values_list("queues", "heard_at", "starting")
    found: dict[str, bool] = {}
    for queues, heard_at, starting in said:
        if not starting or now - heard_at < STARTING:
            found |= {queue: found.get(queue, False) or not starting for queue in queues}
    return found


def recent() -> list[RunnerRow]:
    """Runners heard of within a day, by queue and name. Two queries."""
    now = timezone.now()
    said = {
        (runner.name, queue): runner for runner in Runner.objects.filter(heard_at__gte=now - SHOWN) for queue in runner.queues
    }
    took = ExpressionWrapper(F("done_at") - F("claimed_at"), output_field=DurationField())
    jobs = (
        Job.objects.filter(claimed_at__gte=now - SHOWN)
        .exclude(worker="")
        .values("worker", "queue")
        .annotate(
            done=Count("pk", filter=Q(state=JobState.DONE)),
            failed=Count("pk", filter=Q(state=JobState.FAILED)),
            working=Count("pk", filter=Q(state=JobState.CLAIMED)),
            claimed=Max("claimed_at"),
            mean=Avg(took, filter=Q(state=JobState.DONE)),
        )
        .order_by()
    )
    did = {(row.pop("worker"), row.pop("queue")): row for row in jobs}
    rows = []
    for name, queue in said.keys() | did.keys():
        row = did.get((name, queue), {})
        mean, claimed = row.pop("mean", None), row.pop("claimed", None)
        runner = said.get((name, queue))
        heard_at = max(at for at in (runner and runner.heard_at, claimed) if at is not None)
        starting = runner is not None and runner.starting and now - heard_at < STARTING
        present = now - heard_at < PRESENT and not (runner is not None and runner.starting)
        mean_s = mean.total_seconds() if mean else None
        rows.append(RunnerRow(name, queue, heard_at, present, starting, mean_s=mean_s, **row))
    return sorted(rows, key=lambda row: (row.queue, row.name))
