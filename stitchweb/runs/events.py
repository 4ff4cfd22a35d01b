"""Writing what happened: events numbered under their run's row lock, and the doorbell that says there are new ones."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.db import transaction

from agents.events import Event as EventContract
from stitchweb.runs.models import Event, Run

logger = logging.getLogger(__name__)


def lock(run_id: int) -> Run:
    """The run's row, locked until the transaction ends. Run.DoesNotExist when it was deleted. Call it inside a transaction."""
    return Run.objects.select_for_update().get(pk=run_id)


def append(run: Run, events: Iterable[EventContract]) -> int:
    """Store events of a locked run and ring the doorbell on commit. Their numbers continue the run's; returns the last one.

    `run.last_seq` is written here; the caller saves whatever else changed.
    """
    rows = [
        Event(
            run=run,
            seq=seq,
            kind=event.kind,
            who=event.who[:120],
            at=event.at,
            payload=event.model_dump(mode="json")["payload"],
        )
        for seq, event in enumerate(events, start=run.last_seq + 1)
    ]
    if not rows:
        return run.last_seq
    Event.objects.bulk_create(rows)
    run.last_seq = rows[-1].seq
    Run.objects.filter(pk=run.pk).update(last_seq=run.last_seq)
    ring(run)
    return run.last_seq


def ring(run: Run) -> None:
    """Tell the watchers, once the transaction is committed, up to which event there is something to read.

    A broker that is away must not undo what is done; who watches looks for news without being told, too.
    """
    group, seq = run.group, run.last_seq
    transaction.on_commit(lambda: _send(group, seq), robust=True)


def _send(group: str, seq: int) -> None:
    try:
        async_to_sync(get_channel_layer().group_send)(group, {"type": "run.poke", "seq": seq})
    except Exception as error:
        logger.warning("%s: nobody could be told of event %d, as the broker cannot be reached (%s)", group, seq, error)
