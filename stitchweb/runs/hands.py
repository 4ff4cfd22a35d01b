"""The runners for an engineer with tools: what it builds and measures during its step are jobs like all others.

Each is made under the run's row lock, sent to the queue of its target, claimed, reported and sent again as that of a step. Its
report goes to the engineer, who waits for it, and does not move the run. A worker that dies leaves its jobs: whoever does the
step again finds what they came to, and what nobody asks for is cancelled with the step.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType

from pydantic import TypeAdapter, ValidationError

from agents.state import Step
from gpu_runner.contracts import Report, Task
from gpu_runner.hands import Cancelled, HandsError
from stitchweb.runs import jobbook
from stitchweb.runs.models import Job, JobState

POLL_S = 0.25
QUEUE_S = 180.0  # that a task waits for a runner: an engineer can go on without, and holds a worker as long as it waits
_REPORT: TypeAdapter[Report] = TypeAdapter(Report)


class RunnersHands:
    """`agents.engineers.Hands` for one step of a run. A context: what is open when it is left is cancelled."""

    def __init__(self, run_id: int, step: Step, cancelled: Callable[[], bool]) -> None:
        self.run_id, self.step, self.cancelled = run_id, step, cancelled
        self.seconds = 0.0
        self._used: set[int] = set()

    def __enter__(self) -> RunnersHands:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        # Where the lease was lost another worker does the step, and these are its jobs; a run that ends cancels its own.
        if self.step.kind == "code" and not isinstance(error, Cancelled):
            jobbook.cancel_lent(self.run_id, self.step.index)

    def __call__(self, task: Task) -> Report:
        """The report of one task. HandsError with a sentence; `Cancelled` when nothing is wanted any more."""
        try:
            job = jobbook.lend(self.run_id, self.step, task, self._used)
        except jobbook.JobGone:
            raise Cancelled from None
        self._used.add(job.pk)
        began = time.monotonic()
        while job.open:
            if self.cancelled():
                raise Cancelled
            if job.state == JobState.QUEUED and time.monotonic() - began > QUEUE_S:
                jobbook.cancel_lent(self.run_id, self.step.index)
                raise HandsError(f"No runner for {task.target} took it within {QUEUE_S / 60:.0f} minutes. Go on without.")
            wait()
            job = Job.objects.filter(pk=job.pk).first() or Job(state=JobState.CANCELLED)
        self.seconds += job.seconds
        if job.state == JobState.CANCELLED:
            raise Cancelled
        if job.report is None:
            raise HandsError(job.error or "The runner could not do it.")
        try:
            return _REPORT.validate_python(job.report)
        except ValidationError as error:
            raise HandsError(f"The runner's report cannot be read: {error.error_count()} fields are wrong.") from error


def wait() -> None:
    """Until a job is looked at again."""
    time.sleep(POLL_S)
