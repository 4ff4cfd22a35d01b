"""What nobody takes care of is sent again: messages that were lost, jobs and runs whose worker died.

Safe to run in several processes at once: everything it touches is claimed by conditional updates or merely poked.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta

import redis
from django.conf import settings
from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q
from django.utils import timezone

from stitchweb.core.databases import refresh_statistics
from stitchweb.core.upkeep import hourly
from stitchweb.runs import accounts, dispatch, hosts, jobbook, libraries, replays, runners
from stitchweb.runs.models import RESTING, Control, ControlState, Job, JobState, Run, Runner
from stitchweb.teams.models import LoginLink

logger = logging.getLogger(__name__)

PATIENCE_S = 5.0  # a message that never left the sender shows within this
RESEND_S = 120.0  # a message that waits in its queue is sent again after this, then twice as long each time
MAX_AT_ONCE = 200
MAX_TOLD = 50  # runs whose place in a queue is told anew in one sweep; the others are far from it


@dataclass(frozen=True)
class Swept:
    """What one sweep sent again."""

    jobs: int = 0
    given_up: int = 0
    runs: int = 0


def sweep() -> Swept:
    """One sweep. A handful of queries when there is nothing to do."""
    given_up = _free_lost_jobs()
    _move_builds()
    jobs = _resend_jobs()
    _say_why_they_wait()
    runs = _poke_runs()
    _put_accounts_right()
    swept = Swept(jobs, given_up, runs)
    if swept != Swept():
        logger.info("sent again: %d jobs, %d runs; given up: %d jobs", jobs, runs, given_up)
    return swept


def forget() -> None:
    """Upkeep, once an hour: login links, runners and built libraries long past go, the database learns how its rows are
    spread, and other apps do theirs."""
    refresh_statistics()
    LoginLink.objects.filter(expires_at__lt=timezone.now() - timedelta(days=7)).delete()
    runners.forget()
    hosts.forget()
    libraries.forget()
    hourly.send_robust(sender=None)


def _put_accounts_right() -> None:
    """A broker that was started anew knows no runner; one that was away has not heard of those that were removed."""
    if not Runner.objects.exclude(account="").exists():
        return
    try:
        accounts.sync()
    except redis.RedisError as error:
        logger.warning("runners' accounts could not be compared with the broker's: %s", error)


def _free_lost_jobs() -> int:
    """Jobs whose runner fell silent go back into the queue; after some times their step ends with the cause."""
    given_up = 0
    lost = Job.objects.filter(state=JobState.CLAIMED, lease_expires__lt=timezone.now()).values_list("pk", flat=True)
    for pk in list(lost[:MAX_AT_ONCE]):
        with transaction.atomic():
            job, run = jobbook.locked(pk)
            if job.state != JobState.CLAIMED or job.lease_expires is None or job.lease_expires >= timezone.now():
                continue  # it spoke in between
            hosts.failed(job.worker, "It fell silent during a job.")
            if job.claims >= jobbook.MAX_CLAIMS:
                job.state, job.done_at, job.lease_expires = JobState.FAILED, timezone.now(), None
                who = "agent worker" if job.thinks else "runner"
                job.error = f"The {who} fell silent during this step, {job.claims} times in a row; last it was {job.worker}."
                job.save()
                jobbook.settle(job, run)
                given_up += 1
                continue
            job.state, job.sent_at, job.lease_expires = JobState.QUEUED, None, None
            job.save()
            if run is not None and job.replays:
                replays.change(
                    run, job, "system", state="asked", waiting=f"The runner {job.worker} fell silent; another does it."
                )
            elif run is not None:
                who = job.worker if job.thinks else f"The runner {job.worker}"
                jobbook.tell_waiting(run, job, f"{who} fell silent; the step is given to another.")
    return given_up


def _move_builds() -> None:
    """Builds that wait for a host for builds go to the runners of their target when the last of those is gone. The message that
    stays behind finds nothing to claim."""
    waiting = Job.objects.filter(state=JobState.QUEUED, queue=dispatch.BUILD_QUEUE)
    if not waiting.exists() or runners.builds():
        return
    for job in waiting[:MAX_AT_ONCE]:
        queue = dispatch.runner_queue(job.task["target"])
        waiting.filter(pk=job.pk).update(queue=queue, sent_at=None)


def _resend_jobs() -> int:
    now = timezone.now()
    waiting = Job.objects.filter(state=JobState.QUEUED, created_at__lt=now - timedelta(seconds=PATIENCE_S))
    sent = 0
    for job in waiting.order_by("pk")[:MAX_AT_ONCE]:
        patience = RESEND_S * 2 ** min(max(0, job.sends - 1), 6)
        if job.sent_at is not None and job.sent_at > now - timedelta(seconds=patience):
            continue
        try:
            jobbook.send(job)
        except Exception as error:  # whatever the broker's client raises: it is away, and the next sweep tries again
            logger.warning("the broker does not take messages: %s", error)
            break
        sent += 1
    return sent


def _say_why_they_wait() -> None:
    """On the pages of the runs that wait: whether a runner is there at all, and how much comes first by now."""
    old = timezone.now() - timedelta(seconds=PATIENCE_S)
    waiting = Job.objects.filter(state=JobState.QUEUED, step__isnull=False, created_at__lt=old).select_related("run")
    jobs = list(waiting.exclude(queue=dispatch.AGENTS_QUEUE).order_by("pk")[:MAX_TOLD])
    jobs = list({job.run_id: job for job in reversed(jobs)}.values())  # the first of each run speaks for it
    there = runners.there() if jobs else {}
    for job in jobs:
        why = jobbook.why_waiting(job, there) or "A runner is there, and has not taken the step yet."
        if job.run is None or jobbook.told_waiting(job.run) == why:
            continue
        with transaction.atomic():
            job, run = jobbook.locked(job.pk)
            if run is not None and job.state == JobState.QUEUED:
                jobbook.tell_waiting(run, job, why)


def _poke_runs() -> int:
    """Runs that should move but nobody drives, and requests of people that nobody took."""
    now = timezone.now()
    idle = now - timedelta(seconds=max(PATIENCE_S, settings.LEASE_SECONDS / 2))
    open_job = Job.objects.filter(run=OuterRef("pk"), state__in=jobbook.OPEN, step=F("run__step"))
    asked = Control.objects.filter(run=OuterRef("pk"), state=ControlState.REQUESTED)
    stuck = (
        Run.objects.active()
        .free(now)
        .filter(Q(poked_at=None) | Q(poked_at__lt=idle))
        .filter(Exists(asked) | (~Exists(open_job) & ~Q(status__in=RESTING)))
        .values_list("pk", flat=True)
    )
    poked = 0
    for pk in list(stuck[:MAX_AT_ONCE]):
        try:
            dispatch.send(dispatch.ADVANCE, dispatch.AGENTS_QUEUE, run_id=pk)
        except Exception as error:
            logger.warning("the broker does not take messages: %s", error)
            break
        Run.objects.filter(pk=pk).update(poked_at=now)
        poked += 1
    return poked


def release_everything() -> None:
    """At the start of a site whose workers are known to be gone: nothing is held, everything open is sent again at once."""
    Run.objects.active().update(lease="", lease_expires=None, poked_at=None)
    Job.objects.filter(state=JobState.CLAIMED).update(state=JobState.QUEUED, lease_expires=None, sent_at=None)
    Job.objects.filter(state=JobState.QUEUED).update(sent_at=None)
