"""Who is there to work: what runners say of themselves, beside what their jobs say of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Avg, Count, DurationField, ExpressionWrapper, F, Max, Q
from django.utils import timezone

from gpu_runner.broker import PRESENT_EVERY_S
from gpu_runner.contracts import BuildTask, Task
from stitchweb.runs import dispatch
from stitchweb.runs.models import Job, JobState, Runner, RunnerState

SHOWN = timedelta(hours=24)
KEPT = timedelta(days=7)
PRESENT = timedelta(seconds=3 * PRESENT_EVERY_S)  # two words may be lost
FRESH = timedelta(seconds=PRESENT_EVERY_S / 3)  # a runner that was heard of so lately is not written down again
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
    held: str = ""  # draining or quarantined

    @property
    def state(self) -> str:
        if self.held and (self.present or self.working):
            return f"{self.held}, still working" if self.working else "drained" if self.held == "draining" else self.held
        if self.working:
            return "working"
        if self.starting:
            return "starting"
        return "idle" if self.present else "not heard of"


def works(job: Job) -> None:
    """The job's runner is there: it took the job, or goes on with it. One query, which writes now and then only."""
    now = timezone.now()
    stale = Q(heard_at__lt=now - FRESH) | Q(starting=True)
    Runner.objects.filter(stale, name=job.worker).update(heard_at=now, starting=False)


def forget() -> None:
    """Runners that the site started itself and that were not heard of for a week. One that joined stays until it is removed."""
    Runner.objects.filter(heard_at__lt=timezone.now() - KEPT, account="").delete()


def there() -> dict[str, bool]:
    """The queues that have a runner which takes jobs now, be it idle or at work (True), or one that is starting (False). One
    query."""
    now = timezone.now()
    here = Runner.objects.filter(heard_at__gte=now - PRESENT, state=RunnerState.ACTIVE)
    said = here.values_list("queues", "heard_at", "starting")
    found: dict[str, bool] = {}
    for queues, heard_at, starting in said:
        if not starting or now - heard_at < STARTING:
            found |= {queue: found.get(queue, False) or not starting for queue in queues}
    return found


def builds() -> bool:
    """Whether a host for CUDA builds is there, takes jobs, and has what it needs. One query."""
    since = timezone.now() - PRESENT
    well = Runner.objects.filter(heard_at__gte=since, state=RunnerState.ACTIVE, starting=False, health="")
    return any(dispatch.BUILD_QUEUE in queues for queues in well.values_list("queues", flat=True))


def queue_for(task: Task) -> str:
    """Where a task goes now: the target's runners do it, but a build for a CUDA device that a host for builds can take. One
    query for such a build."""
    if isinstance(task, BuildTask) and task.target != "cpu" and builds():
        return dispatch.BUILD_QUEUE
    return dispatch.runner_queue(task.target)


def resting(queue: str) -> str:
    """That runners of this queue are there and take no jobs, in a sentence; empty when there are none. One query."""
    here = Runner.objects.filter(heard_at__gte=timezone.now() - PRESENT).exclude(state=RunnerState.ACTIVE)
    states = [state for queues, state in here.values_list("queues", "state") if queue in queues]
    if not states:
        return ""
    target = queue.removeprefix("run.")
    if len(states) == 1:
        return f"The only runner for {target} is {states[0]} and takes no jobs."
    told = " and ".join(f"{states.count(state)} {state}" for state in sorted(set(states)))
    return f"All runners for {target} take no jobs now: {told}."


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
        held = runner.state if runner is not None and runner.state != RunnerState.ACTIVE else ""
        rows.append(RunnerRow(name, queue, heard_at, present, starting, mean_s=mean_s, held=held, **row))
    return sorted(rows, key=lambda row: (row.queue, row.name))
