"""What the agent worker makes: sent, taken up once, ended one way or another, cancelled."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from stitchweb.datasets.models import Work, WorkState
from stitchweb.datasets.progress import Refused, Stopped
from stitchweb.runs import dispatch

logger = logging.getLogger(__name__)

SILENT = timedelta(minutes=3)  # without a word, after which it may be sent again


def sent(task: str, row: Work) -> None:
    """Send it to the agent worker once this transaction is committed."""
    dispatch.send_on_commit(task, dispatch.AGENTS_QUEUE, pk=row.pk)


def stale(row: Work) -> bool:
    """Whether nobody seems to work on it."""
    return row.open and timezone.now() - row.heard_at > SILENT


def begin(row: Work) -> bool:
    """Take it up. False where somebody else has, or it has ended: a message can come twice."""
    now = timezone.now()
    rows = type(row).objects.filter(pk=row.pk)  # type: ignore[attr-defined]
    free = rows.filter(state=WorkState.QUEUED) | rows.filter(state=WorkState.RUNNING, heard_at__lt=now - SILENT)
    if not free.update(state=WorkState.RUNNING, heard_at=now, problem=""):
        return False
    row.refresh_from_db()
    return True


@contextmanager
def carried_out(row: Work) -> Iterator[None]:
    """Ends the row: done with what the body put into it, cancelled, refused with its sentence, or failed."""
    try:
        yield
    except Stopped:
        _end(row, WorkState.CANCELLED, "Cancelled. Nothing was kept of it.")
    except Refused as refusal:
        _end(row, WorkState.FAILED, str(refusal))
        raise
    except Exception as error:
        logger.exception("%s %s failed", type(row).__name__, row.pk)
        _end(row, WorkState.FAILED, f"It failed: {type(error).__name__}. The log of the agent worker has more.")
        raise
    else:
        row.state, row.doing, row.ended_at, row.heard_at = WorkState.DONE, "", timezone.now(), timezone.now()
        row.save()


def _end(row: Work, state: str, problem: str) -> None:
    now = timezone.now()
    rows = type(row).objects.filter(pk=row.pk)  # type: ignore[attr-defined]
    rows.update(state=state, problem=problem, doing="", ended_at=now, heard_at=now)
    row.refresh_from_db()


@transaction.atomic
def cancel(row: Work) -> None:
    """Ask that it stops. What nobody has taken up, or whose worker is silent, ends at once."""
    rows = type(row).objects.select_for_update().filter(pk=row.pk)  # type: ignore[attr-defined]
    now = rows.get()
    if not now.open:
        return
    rows.update(cancel=True)
    if now.state == WorkState.QUEUED or stale(now):
        _end(row, WorkState.CANCELLED, "Cancelled. Nothing was kept of it.")
