"""Jobs from birth to report: made with their step, claimed by one runner at a time, told about, reported once."""

from __future__ import annotations

import functools
import logging
import time
import uuid
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.core import signing
from django.db import transaction
from django.db.models import Q
from django.utils import timezone
from pydantic import TypeAdapter, ValidationError

from agents.events import Event, events_of_progress, storable
from agents.state import Step
from gpu_runner.broker import TASK
from gpu_runner.contracts import PROTOCOLS, AnalyseTask, Analysis, CheckTask, Progress, Report, Task
from stitchweb.programs.models import AnalysisState, Revision
from stitchweb.runs import dispatch, events, hosts, replays, runners
from stitchweb.runs.models import RESTING, Job, JobState, Run, Runner, RunnerState
from stitchweb.runs.models import Event as EventRow

logger = logging.getLogger(__name__)

OPEN = (JobState.QUEUED, JobState.CLAIMED)
MAX_CLAIMS = 3  # a job that ended its runner three times is the job's fault
TOKEN_LIFE = timedelta(days=2)
_SALT = "stitchweb.runs.job"
_PROGRESS: TypeAdapter[list[Progress]] = TypeAdapter(list[Progress])
_REPORT: TypeAdapter[Report] = TypeAdapter(Report)


class JobGone(Exception):
    """Nothing is wanted of this runner any more: the job is done, cancelled, or another's."""


class NotNow(Exception):
    """The job is there, and this runner is to take none. The message is for its log."""


# ---- birth


def create_for_step(run: Run, step: Step, task: Task | None) -> Job:
    """The job of a step, inside the transaction that decided it; sent on commit. `task` None: an agent worker does it."""
    job = Job.objects.create(
        run=run,
        step=step.index,
        kind=step.kind,
        queue=runners.queue_for(task) if task else dispatch.AGENTS_QUEUE,
        candidate=step.candidate or "",
        lane=step.lane,
        task=task.model_dump(mode="json") if task else {},
    )
    send_on_commit(job)
    if why := why_waiting(job, runners.there()):
        tell_waiting(run, job, why)
    return job


@transaction.atomic
def lend(run_id: int, step: Step, task: Task, used: Collection[int]) -> Job:
    """The job of a task that the engineer of this step asks for; one that was made for it before, by a worker that died, is
    found again. `used`: those that this worker has had. JobGone when the run wants nothing more."""
    run = events.lock(run_id)
    if run.ended or run.cancel_requested_at:
        raise JobGone
    wanted = task.model_dump(mode="json")
    known = (
        Job.objects.filter(run=run, within=step.index, kind=task.kind).exclude(pk__in=used).exclude(state=JobState.CANCELLED)
    )
    for job in known:
        if job.task == wanted and job.state != JobState.FAILED:
            return job
    queue = runners.queue_for(task)
    job = Job.objects.create(run=run, within=step.index, kind=task.kind, queue=queue, task=wanted)
    send_on_commit(job)
    if why := why_waiting(job, runners.there()):
        tell_waiting(run, job, why)
    return job


def cancel_lent(run_id: int, step: int) -> None:
    """What is open of such jobs ends. Their runners learn it from the next answer."""
    jobs = Job.objects.filter(run=run_id, within=step, state__in=OPEN)
    jobs.update(state=JobState.CANCELLED, done_at=timezone.now(), lease_expires=None)


def create_replay(run: Run, candidate: str, task: CheckTask, by: str) -> Job:
    """The job that makes one draw of a check again, beside the run. The run is locked by the caller; sent on commit."""
    job = Job.objects.create(
        run=run,
        kind=task.kind,
        queue=runners.queue_for(task),
        candidate=candidate,
        task=task.model_dump(mode="json"),
    )
    send_on_commit(job)
    replays.tell(run, replays.begun(job, by, why_waiting(job, runners.there())), by)
    return job


def create_trial(revision: Revision, task: CheckTask) -> Job:
    """The job that checks texts which belong to no run. Its report stays in the row; sent on commit."""
    queue = runners.queue_for(task)
    job = Job.objects.create(revision=revision, kind=task.kind, queue=queue, task=task.model_dump(mode="json"))
    send_on_commit(job)
    return job


def why_waiting(job: Job, there: dict[str, bool]) -> str:
    """Why no runner takes the job at this moment; empty when one is free for it. `there`: see `runners.there`. One query."""
    if job.thinks:
        return ""
    target = job.queue.removeprefix("run.")
    what = "It is done" if job.replays or job.run_id is None else "The run goes on"
    if job.queue not in there:
        if resting := runners.resting(job.queue):
            return f"{resting} {what} as soon as one takes jobs again."
        return f"No runner for {target} is there. {what} as soon as one is started."
    if not there[job.queue]:
        return f"The runner for {target} is starting. {what} as soon as it is there."
    ahead = Job.objects.filter(queue=job.queue, state__in=OPEN, pk__lt=job.pk).count()
    if not ahead:
        return ""
    return f"Waits for a free {target} runner: {ahead} {'step' if ahead == 1 else 'steps'} of other work before it."


def create_analysis(revision: Revision) -> Job:
    """Ask what a revision is, before any run. The answer is kept in `revision.analysis`."""
    task = AnalyseTask(target="cpu", source=revision.source, protocol=PROTOCOLS["strict"])
    with transaction.atomic():
        queue = runners.queue_for(task)
        job = Job.objects.create(revision=revision, kind="analyse", queue=queue, task=task.model_dump(mode="json"))
        Revision.objects.filter(pk=revision.pk).update(analysis_state=AnalysisState.QUEUED, analysis_error="")
        send_on_commit(job)
    return job


def token_of(job_id: int) -> str:
    """The right to speak for one job, for two days. Signed, not stored."""
    return signing.dumps(job_id, salt=_SALT)


def job_of(token: str) -> int | None:
    """The job a token speaks for; None for a forged or an old one."""
    try:
        value = signing.loads(token, salt=_SALT, max_age=TOKEN_LIFE)
    except signing.BadSignature:
        return None
    return value if isinstance(value, int) else None


def send_on_commit(job: Job) -> None:
    transaction.on_commit(lambda: send(job), robust=True)


def send(job: Job) -> None:
    """Put the job's message into its queue. The row notes it, so that the sweeper knows what never left."""
    if job.thinks:
        dispatch.send(dispatch.THINK, job.queue, job_id=job.pk)
        Job.objects.filter(pk=job.pk).update(sent_at=timezone.now(), sends=job.sends + 1)
        return
    dispatch.send(TASK, job.queue, job={"id": job.pk, "token": token_of(job.pk)})
    Job.objects.filter(pk=job.pk).update(sent_at=timezone.now(), sends=job.sends + 1)


def poke(run_id: int) -> None:
    """Have the run looked at by an agent worker, after the commit."""
    Run.objects.filter(pk=run_id).update(poked_at=timezone.now())
    dispatch.send_on_commit(dispatch.ADVANCE, dispatch.AGENTS_QUEUE, run_id=run_id)


def cancel_open(run: Run) -> None:
    """The run has ended: its open steps end too. Their runners learn it from the next answer. Replays go on."""
    theirs = Q(step__isnull=False) | Q(within__isnull=False)
    Job.objects.filter(theirs, run=run, state__in=OPEN).update(state=JobState.CANCELLED, done_at=timezone.now())


# ---- the runner's side


def claim(job_id: int, runner: Runner) -> str:
    """Give the job to a runner; the answer is its claim. JobGone when it is not to be had, NotNow when it is not to be had by
    this one: then it is sent again for another. One conditional UPDATE decides."""
    now, mine = timezone.now(), uuid.uuid4().hex
    if runner.state != RunnerState.ACTIVE:
        Job.objects.filter(pk=job_id, state=JobState.QUEUED).update(sent_at=None)
        raise NotNow(f"The runner {runner.name} is {runner.state} and takes no jobs.")
    with transaction.atomic():
        job, run = locked(job_id)
        silent = job.state == JobState.CLAIMED and job.lease_expires is not None and job.lease_expires < now
        free = job.state == JobState.QUEUED or silent
        if not free or job.thinks or job.queue not in runner.queues:
            raise JobGone
        was_waiting = job.state == JobState.QUEUED
        job.state, job.claim, job.claims, job.batches = JobState.CLAIMED, mine, job.claims + 1, 0
        job.worker, job.claimed_at, job.lease_expires = runner.name, now, _term(now)
        job.save()
        runners.works(job)
        if job.analyses:
            Revision.objects.filter(pk=job.revision_id).update(analysis_state=AnalysisState.RUNNING)
        elif run is not None and job.replays:
            replays.change(run, job, state="working")
        elif run is not None and was_waiting:
            tell_waiting(run, job, "")
    return mine


def progress(job_id: int, mine: str, batch: int, messages: list[Any]) -> bool:
    """Take in a batch and renew the lease; True: stop, the run is cancelled. A batch taken before is not told again."""
    try:
        said = _PROGRESS.validate_python(storable(messages))
    except (ValidationError, RecursionError):
        logger.warning("job %s: a batch of progress cannot be read", job_id)
        said = []
    now = timezone.now()
    if not said:
        # A heartbeat: read, and write only when a good part of the term is over.
        job = Job.objects.filter(pk=job_id, claim=mine, state=JobState.CLAIMED).first()
        if job is None:
            raise JobGone
        fields: dict[str, Any] = {"batches": batch}
        if job.lease_expires is None or job.lease_expires < _term(now) - timedelta(seconds=settings.LEASE_SECONDS / 6):
            fields["lease_expires"] = _term(now)
            runners.works(job)
        Job.objects.filter(pk=job_id, claim=mine).update(**fields)
        return bool(not job.replays and Run.objects.filter(pk=job.run_id, cancel_requested_at__isnull=False).exists())
    with transaction.atomic():
        job, run = locked(job_id)
        if job.claim != mine or job.state != JobState.CLAIMED:
            raise JobGone
        if batch > job.batches and run is not None and job.replays:
            replays.progress(run, job, said)
        elif batch > job.batches and run is not None and not run.ended and not job.lent:
            at, step, load = time.time(), _step(job), functools.cache(run.load)
            told = [
                Event(seq=1, kind=kind, at=at, who="runner", payload=payload)
                for message in said
                for kind, payload in events_of_progress(message, step, load)
            ]
            events.append(run, told)
        job.batches = max(job.batches, batch)
        job.lease_expires = _term(now)
        job.save(update_fields=["batches", "lease_expires"])
        runners.works(job)
        return bool(run and run.cancel_requested_at and not job.replays)


@transaction.atomic
def report(job_id: int, mine: str, body: dict[str, Any] | None, error: str, seconds: float) -> None:
    """Keep what came out, once; the same runner saying it again is answered alike. JobGone for anybody else."""
    job, run = locked(job_id)
    if job.claim != mine or job.state == JobState.CANCELLED:
        raise JobGone
    if job.state in (JobState.DONE, JobState.FAILED):
        return
    if body is not None:
        try:
            _REPORT.validate_python(body := storable(body))
        except ValidationError as problem:
            body, error = None, f"The runner's report cannot be read: {problem.error_count()} fields are wrong."
        except RecursionError:
            body, error = None, "The runner's report cannot be read: it is nested too deep."
    job.state = JobState.DONE if body is not None else JobState.FAILED
    job.report, job.error, job.seconds = body, storable(error)[:4000], max(0.0, seconds)
    job.done_at, job.lease_expires = timezone.now(), None
    job.save()
    if body is not None:
        hosts.did_well(job.worker)
    elif not (run is not None and run.cancel_requested_at):
        hosts.failed(job.worker, job.error)
    settle(job, run)


def settle(job: Job, run: Run | None) -> None:
    """What follows from a job that has just ended. `run`: its run, locked by the caller."""
    if run is not None and job.replays:
        replays.ended(run, job)
        return
    if job.lent:
        return
    if job.run_id:
        poke(job.run_id)
        return
    if not job.analyses:
        return
    fields: dict[str, Any] = {"analysis_state": AnalysisState.FAILED, "analysis_error": job.error}
    if job.report is not None:
        fields = {"analysis_state": AnalysisState.DONE, "analysis": _without_graph(job.report)}
    Revision.objects.filter(pk=job.revision_id).update(**fields)


def keep_analysis(run: Run) -> None:
    """A run's own analysis serves its revision too, when that has none."""
    job = Job.objects.filter(run=run, kind="analyse", state=JobState.DONE).order_by("-pk").first()
    if job and job.report:
        waiting = Revision.objects.filter(pk=run.revision_id).exclude(analysis_state=AnalysisState.DONE)
        waiting.update(analysis_state=AnalysisState.DONE, analysis=_without_graph(job.report), analysis_error="")


def tell_waiting(run: Run, job: Job, waiting: str) -> None:
    """Say on the page why nothing moves, or, with an empty text, that it moves again. Nothing is said twice, and nothing of a
    run that rests for a reason of its own. The run is locked by the caller."""
    if run.status in RESTING or told_waiting(run) == waiting:
        return
    if waiting and Job.objects.filter(run=run, step__isnull=False, state=JobState.CLAIMED).exclude(pk=job.pk).exists():
        return  # another lane of the round moves
    [(kind, payload)] = events_of_progress(Progress(kind="stage", payload={"text": ""}), _step(job), run.load)
    payload = payload | {"waiting": waiting}
    events.append(run, [Event(seq=1, kind=kind, at=time.time(), who="system", payload=payload)])


def told_waiting(run: Run) -> str:
    """What the run's page says it waits for. One query."""
    lines = EventRow.objects.filter(run=run, kind="run.status").order_by("-seq").values_list("payload", flat=True)
    return str((lines.first() or {}).get("waiting", ""))


def _step(job: Job) -> Step:
    return Step(index=job.step or 0, kind=job.kind, candidate=job.candidate or None, lane=job.lane)  # type: ignore[arg-type]


def locked(job_id: int) -> tuple[Job, Run | None]:
    """The job and its run, both locked: the run first, as everywhere, so that two transactions never wait for each other."""
    run_id = Job.objects.filter(pk=job_id).values_list("run_id", flat=True).first()
    run = events.lock(run_id) if run_id else None
    # What is large is read where it is needed: words of a runner come ten times a second.
    job = Job.objects.select_for_update().defer("task", "report").filter(pk=job_id).first()
    if job is None:
        raise JobGone
    return job, run


def _term(now: datetime) -> datetime:
    return now + timedelta(seconds=settings.LEASE_SECONDS)


def _without_graph(report: dict[str, Any]) -> dict[str, Any]:
    """The graph may be large and serves engineers only, who read the whole report."""
    kept: dict[str, Any] = storable(Analysis.model_validate(report).model_copy(update={"graph": None}).model_dump(mode="json"))
    return kept
