"""Who drives a run, and who does one step of it: leases in their rows, taken and renewed by conditional UPDATEs.

A lease that runs out is free for anybody. The steps of a round have leases of their own, so that several workers think at once
and a worker that dies costs its step alone.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from django.conf import settings
from django.db import DatabaseError, connection
from django.db.models import QuerySet
from django.utils import timezone

from stitchweb.runs.models import Job, JobState, Run

logger = logging.getLogger(__name__)


class LeaseLost(Exception):
    """Somebody else drives the run now; nothing of this attempt may be written."""


@dataclass(frozen=True)
class Lease:
    """`lost` is set as soon as a heartbeat finds the lease gone."""

    run_id: int
    token: str
    lost: threading.Event = field(default_factory=threading.Event)

    def wanted(self) -> bool:
        """Whether it is still held and nobody has cancelled the run. One query."""
        return Run.objects.filter(pk=self.run_id, lease=self.token, cancel_requested_at=None).exists()

    def holds(self, run: Run) -> bool:
        """Whether it is still held; the run is locked by the caller."""
        return run.lease == self.token

    def renew(self) -> bool:
        """Whether it is still held, and then for a whole term from now. One UPDATE."""
        return renew(self)


@dataclass(frozen=True)
class StepLease:
    """The same for one step of a round, which is the job `job_id`."""

    run_id: int
    job_id: int
    token: str
    lost: threading.Event = field(default_factory=threading.Event)

    def wanted(self) -> bool:
        return self._mine().filter(run__cancel_requested_at=None).exists()

    def holds(self, run: Run) -> bool:
        return self._mine().exists()

    def renew(self) -> bool:
        return bool(self._mine().update(lease_expires=timezone.now() + timedelta(seconds=settings.LEASE_SECONDS)))

    def _mine(self) -> QuerySet[Job]:
        return Job.objects.filter(pk=self.job_id, claim=self.token, state=JobState.CLAIMED)


def acquire(run_id: int) -> Lease | None:
    """The lease, or None when another worker holds it or the run has ended. One UPDATE."""
    now, token = timezone.now(), uuid.uuid4().hex
    expires = now + timedelta(seconds=settings.LEASE_SECONDS)
    taken = Run.objects.active().free(now).filter(pk=run_id).update(lease=token, lease_expires=expires)
    return Lease(run_id, token) if taken else None


def renew(lease: Lease) -> bool:
    """Whether the lease is still ours, and then for a whole term from now. One UPDATE."""
    expires = timezone.now() + timedelta(seconds=settings.LEASE_SECONDS)
    return bool(Run.objects.filter(pk=lease.run_id, lease=lease.token).update(lease_expires=expires))


def release(lease: Lease) -> None:
    """Give the lease back, if it is still ours. One UPDATE."""
    Run.objects.filter(pk=lease.run_id, lease=lease.token).update(lease="", lease_expires=None)


@contextmanager
def heartbeat(lease: Lease | StepLease) -> Iterator[None]:
    """Renews the lease six times per term from a thread of its own, for as long as the block runs."""
    stop = threading.Event()

    def beat() -> None:
        try:
            while not stop.wait(timeout=settings.LEASE_SECONDS / 6):
                try:
                    if not lease.renew():
                        lease.lost.set()
                        return
                except DatabaseError:  # away for a moment; the term is long enough for five more tries
                    logger.warning("the lease of run %s could not be renewed", lease.run_id, exc_info=True)
        finally:
            connection.close()  # Django opens one per thread and closes none of them

    thread = threading.Thread(target=beat, name=f"lease-{lease.run_id}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
