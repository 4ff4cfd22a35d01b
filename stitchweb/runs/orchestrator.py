"""The loop's imperative shell: take the lease, ask `next_step`, have the step done, apply its outcome, store it all at once.

An agents' step is thought here, between two transactions; a hands' step becomes a Job row and the lease is given back until
its report is there. Whatever is read and decided under the row lock is written in the same transaction, so a process that
dies leaves either everything of a step or nothing, and a message that comes twice finds nothing to do.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from django.db import DatabaseError, transaction
from django.utils import timezone
from pydantic import TypeAdapter, ValidationError

from agents.events import Event, events_of
from agents.loop import apply, next_step, start, under_way
from agents.loop.due import due
from agents.loop.route import fail
from agents.loop.steering import refusal
from agents.state import Broken, Outcome, Rating, State, Status, Steered, Step, Stop
from agents.state import Control as ControlRequest
from agents.steps import outcome_of, task_for, think
from gpu_runner.contracts import Report
from gpu_runner.hands import Cancelled
from stitchweb.core.logs import about
from stitchweb.core.tracing import span
from stitchweb.llm.doors import team_doors
from stitchweb.runs import events, jobbook, judged
from stitchweb.runs.blobs import RunBlobs
from stitchweb.runs.hands import RunnersHands
from stitchweb.runs.history import refresh_snapshot
from stitchweb.runs.lease import Lease, LeaseLost, StepLease, acquire, heartbeat, release
from stitchweb.runs.models import Control, ControlState, Job, JobState, Run
from stitchweb.runs.signals import tell_decided, tell_ended
from stitchweb.runs.speech import Speech
from stitchweb.runs.summary import store

logger = logging.getLogger(__name__)

_REPORT: TypeAdapter[Report] = TypeAdapter(Report)
CANCEL_POLL_S = 0.5


def advance(run_id: int) -> None:
    """Drive the run until it waits for a runner, for a person, or has ended. Nothing happens when another worker drives it."""
    take_controls(run_id)
    lease = acquire(run_id)
    if lease is None:
        return
    with about(run=run_id), heartbeat(lease):
        try:
            while (work := _decide(lease)) is not None:
                step, state = work
                with about(step=step.index), span(f"step.{step.kind}", run=run_id, step=step.index):
                    _store(lease, thought(lease, step, state))
        except LeaseLost:
            logger.info("run %s is driven by another worker now", run_id)
        except (DatabaseError, Cancelled):
            release(lease)
            raise
        except Exception as error:  # a fault of ours must end the step with its cause, not repeat for ever
            logger.exception("run %s: the step could not be driven", run_id)
            _broken(lease, f"{type(error).__name__}: {error}")


@transaction.atomic
def take_controls(run_id: int) -> None:
    """Apply what people asked for since, in the order asked. Needs no lease: the row lock orders it among the outcomes."""
    if not Control.objects.filter(run_id=run_id, state=ControlState.REQUESTED).exists():
        return
    run = events.lock(run_id)
    for row in Control.objects.filter(run_id=run_id, state=ControlState.REQUESTED).select_related("user"):
        state, at = run.load(), time.time()
        request = ControlRequest(id=str(row.pk), kind=row.kind, by=str(row.user or "somebody"), data=row.data)
        refused = refusal(state, request)
        outcome = Steered(step=state.step, at=at, control=request)
        move(run, state, outcome, at)
        row.state = ControlState.REFUSED if refused else ControlState.APPLIED
        row.done_at = timezone.now()
        row.save(update_fields=["state", "done_at"])
    if run.ended:
        jobbook.cancel_open(run)
        refresh_snapshot(run)


@transaction.atomic
def _decide(lease: Lease) -> tuple[Step, State] | None:
    """The engineer's step that is due, or None after the lease was given back.

    Everything that needs no engineer happens on the way: the start, the outcome of a finished job, the next job.
    """
    run = _locked(lease)
    blobs = RunBlobs(run.pk)
    while True:
        try:
            state = run.load()
        except ValidationError:
            _unreadable(run)
            return None
        if state.status is Status.QUEUED and state.started_at is None:
            at = time.time()
            move(run, state, None, at)
            continue
        if state.round is not None:
            if _in_round(run, state, blobs):
                continue
            break
        step = next_step(state)
        job = Job.objects.filter(run=run, step=state.step).first()
        if isinstance(step, Stop):
            # What was under way when a person paused is still taken; nothing new is begun.
            if step.status is not Status.PAUSED or job is None or job.open or state.resume is None:
                break
            step = due(state, state.resume)[0]
        if not step.by_hands:
            return step, state
        if job is None:
            try:
                jobbook.create_for_step(run, step, task_for(step, state, blobs))
                break
            except (KeyError, ValueError) as error:
                reason = f"The task of this step could not be written: {error}"
                outcome: Outcome = Broken(step=step.index, at=time.time(), reason=reason)
        elif job.open:
            break
        else:
            outcome = _outcome(job, step, state, blobs)
        if move(run, state, outcome, outcome.at, blobs) is state:
            raise RuntimeError(f"the outcome {outcome.kind!r} does not answer the step {step.kind!r}")
    if run.ended:
        jobbook.cancel_open(run)
    refresh_snapshot(run)
    release(lease)
    return None


def _in_round(run: Run, state: State, blobs: RunBlobs) -> bool:
    """Take in one outcome of a round, or give each of its lanes the job that is due; whether the state has moved.

    An engineer's step is a job here too, thought by whichever agent worker takes it (`thinking`).
    """
    steps = under_way(state)
    jobs = {job.step: job for job in Job.objects.filter(run=run, step__in=[step.index for step in steps])}
    for step in steps:
        job = jobs.get(step.index)
        if job is None and state.status is Status.PAUSED:
            continue  # nothing new is begun
        if job is None:
            try:
                jobbook.create_for_step(run, step, task_for(step, state, blobs) if step.by_hands else None)
                continue
            except (KeyError, ValueError) as error:
                reason = f"The task of this step could not be written: {error}"
                outcome: Outcome = Broken(step=step.index, at=time.time(), reason=reason)
        elif job.open:
            continue
        else:
            outcome = _outcome(job, step, state, blobs)
        if move(run, state, outcome, outcome.at, blobs) is state:
            raise RuntimeError(f"the outcome {outcome.kind!r} does not answer the step {step.kind!r}")
        return True
    return False


def _outcome(job: Job, step: Step, state: State, blobs: RunBlobs) -> Outcome:
    at = job.done_at.timestamp() if job.done_at else time.time()
    if job.state != JobState.DONE or job.report is None:
        return Broken(step=step.index, at=at, seconds=job.seconds, reason=job.error or "The job was cancelled.")
    try:
        report = _REPORT.validate_python(job.report)
    except ValidationError as error:
        return Broken(step=step.index, at=at, seconds=job.seconds, reason=f"The runner's report cannot be read: {error}"[:2000])
    return outcome_of(step, state, report, blobs, at, job.seconds)


def thought(lease: Lease | StepLease, step: Step, state: State) -> Outcome:
    """Ask the engineer, outside of any transaction. What it says on the way is shown; a cancelled run makes it stop."""
    team = Run.objects.values_list("team", flat=True).get(pk=lease.run_id)
    blobs, doors, cancelled = RunBlobs(lease.run_id), team_doors(team), _cancelled(lease)
    speech = Speech(lease, step.lane)

    def rate(candidates: Sequence[str]) -> Sequence[Rating]:
        return judged.rated(team, lease.run_id, candidates, cancelled)

    with speech as say:
        try:
            with RunnersHands(lease.run_id, step, cancelled) as hands:
                return think(
                    step, state, blobs, say, cancelled, doors=doors, asked=speech.asked, hands=hands, called=speech.called,
                    rate=rate,
                )  # fmt: skip
        except Cancelled:
            if lease.lost.is_set():
                raise LeaseLost from None
            return Broken(step=step.index, at=time.time(), reason="The engineer was stopped.")


def _store(lease: Lease, outcome: Outcome) -> None:
    """Apply an engineer's outcome to the state as it is now: people may have steered meanwhile."""
    take_controls(lease.run_id)
    with transaction.atomic():
        run = _locked(lease)
        move(run, run.load(), outcome, outcome.at)


def move(run: Run, before: State, outcome: Outcome | None, at: float, blobs: RunBlobs | None = None) -> State:
    """One application of the reducer to a locked run: new state, events, row. The transaction is the caller's."""
    after = start(before, at) if outcome is None else apply(before, outcome)
    if after is before:
        return after
    told: list[Event] = events_of(before, outcome, after, at, run.last_seq, blobs or RunBlobs(run.pk))
    store(run, after)
    events.append(run, told)
    if outcome is not None and outcome.kind == "analysed":
        jobbook.keep_analysis(run)
    if outcome is not None and outcome.kind == "decided":
        tell_decided(run)
    return after


def _locked(lease: Lease) -> Run:
    run = events.lock(lease.run_id)
    if run.lease != lease.token:
        raise LeaseLost
    return run


def _broken(lease: Lease, reason: str) -> None:
    """End the step that is due with a fault of ours: retried by the loop a few times, then the run fails with the cause."""
    try:
        with transaction.atomic():
            run = _locked(lease)
            state, at = run.load(), time.time()
            try:
                index = next((step.index for step in under_way(state)), state.step)
                move(run, state, Broken(step=index, at=at, reason=reason), at)
            except Exception:
                logger.exception("run %s: the reducer itself failed", run.pk)
                store(run, fail(state, reason))
            release(lease)
        jobbook.poke(lease.run_id)
    except LeaseLost:
        pass


def _unreadable(run: Run) -> None:
    """A state of another schema: nothing can be done with it but say so."""
    run.status, run.verdict, run.stop_cause = Status.FAILED.value, "failed", "failed"
    run.sentence = "This run was begun by another version of StitchWeb, whose state this one cannot read. Start it again."
    run.ended_at = run.changed_at = timezone.now()
    run.lease, run.lease_expires = "", None
    run.save()
    tell_ended(run)
    events.ring(run)


def _cancelled(lease: Lease | StepLease) -> Callable[[], bool]:
    """Whether to stop, asked of the database at most twice a second."""
    asked = [0.0, False]

    def cancelled() -> bool:
        if lease.lost.is_set():
            return True
        now = time.monotonic()
        if not asked[1] and now - asked[0] >= CANCEL_POLL_S:
            asked[0] = now
            asked[1] = not lease.wanted()
        return bool(asked[1])

    return cancelled
