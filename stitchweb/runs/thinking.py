"""An engineer's step of a round, done beside others: claimed by one agent worker, under a lease of its own, stored once.

The run's driver makes the job and goes; whoever gets its message thinks. The outcome is applied under the run's row lock, in
the transaction that ends the job, so a worker that dies leaves a job whose lease runs out, which the sweeper gives to another.
"""

from __future__ import annotations

import logging
import time
import uuid
from datetime import timedelta

from django.conf import settings
from django.db import DatabaseError, transaction
from django.utils import timezone
from pydantic import ValidationError

from agents.loop import under_way
from agents.state import Broken, Outcome, State, Step
from gpu_runner.hands import Cancelled
from stitchweb.runs import jobbook
from stitchweb.runs.lease import LeaseLost, StepLease, heartbeat
from stitchweb.runs.models import JobState, Run
from stitchweb.runs.orchestrator import move, take_controls, thought

logger = logging.getLogger(__name__)

WORKER = "An agent worker"


def think_step(job_id: int) -> None:
    """Do the step, unless another worker does it or nothing is wanted of it any more."""
    claimed = _claim(job_id)
    if claimed is None:
        return
    lease, step, state = claimed
    with heartbeat(lease):
        try:
            outcome = _thought(lease, step, state)
            take_controls(lease.run_id)
            _store(lease, outcome)
        except LeaseLost:
            logger.info("step %s of run %s is another worker's now, or nobody's", step.index, lease.run_id)


def _thought(lease: StepLease, step: Step, state: State) -> Outcome:
    try:
        return thought(lease, step, state)
    except (DatabaseError, Cancelled, LeaseLost):
        raise
    except Exception as error:  # a fault of ours must end the step with its cause, not repeat for ever
        logger.exception("run %s: step %s could not be thought", lease.run_id, step.index)
        return Broken(step=step.index, at=time.time(), reason=f"{type(error).__name__}: {error}")


@transaction.atomic
def _claim(job_id: int) -> tuple[StepLease, Step, State] | None:
    """The step for this worker, None when it is not to be had. The row locks of run and job decide."""
    now, token = timezone.now(), uuid.uuid4().hex
    try:
        job, run = jobbook.locked(job_id)
    except (jobbook.JobGone, Run.DoesNotExist):
        return None
    silent = job.state == JobState.CLAIMED and job.lease_expires is not None and job.lease_expires < now
    if run is None or run.ended or not job.thinks or not (job.state == JobState.QUEUED or silent):
        return None
    try:
        state = run.load()
    except ValidationError:
        return None  # the run's driver says so
    step = next((step for step in under_way(state) if step.index == job.step), None)
    if step is None:
        job.state, job.done_at = JobState.CANCELLED, now
        job.save(update_fields=["state", "done_at"])
        return None
    job.state, job.claim, job.claims, job.worker = JobState.CLAIMED, token, job.claims + 1, WORKER
    job.claimed_at, job.lease_expires = now, now + timedelta(seconds=settings.LEASE_SECONDS)
    job.save()
    return StepLease(run.pk, job.pk, token), step, state


@transaction.atomic
def _store(lease: StepLease, outcome: Outcome) -> None:
    """Apply the outcome to the state as it is now, and end the job: both or neither."""
    job, run = jobbook.locked(lease.job_id)
    if run is None or job.claim != lease.token or job.state != JobState.CLAIMED:
        raise LeaseLost
    move(run, run.load(), outcome, outcome.at)
    job.state, job.done_at, job.lease_expires, job.seconds = JobState.DONE, timezone.now(), None, outcome.seconds
    job.save()
    if run.ended:
        jobbook.cancel_open(run)
    jobbook.poke(run.pk)
