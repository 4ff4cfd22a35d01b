"""One reader per run and process: fetches and renders each batch of events once, for all sockets that watch the run.

The channel layer only rings ("there is something up to N"); what is sent is read from the table. A ring that is lost costs a
watcher two seconds, never an event.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from channels.db import database_sync_to_async
from channels.layers import get_channel_layer

from agents.events import View, fold_all
from stitchweb.runs.blobs import RunBlobs
from stitchweb.runs.history import PAGE, events_after, view_of
from stitchweb.runs.render import fragments

logger = logging.getLogger(__name__)

MAX_BYTES = 256 * 1024  # of events in one batch
POLL_S = 2.0  # look again after this without a ring
KEPT = 64  # batches that late watchers can still share


@dataclass(frozen=True)
class Batch:
    """What leads from one event to another: `text` is the message as sent, the same for everybody."""

    after: int
    upto: int
    text: str


class Reader:
    """The batches of one run, by the event they start after. Lives while somebody watches."""

    def __init__(self, run_id: int) -> None:
        self.run_id = run_id
        self.watchers = 0
        self._batches: OrderedDict[int, Batch] = OrderedDict()
        self._views: OrderedDict[int, View] = OrderedDict()
        self._reads: dict[int, tuple[asyncio.Task[Batch | None], asyncio.Event]] = {}
        self._bell = asyncio.Event()
        self._doorbell: asyncio.Task[None] | None = None

    async def next(self, seq: int) -> Batch | asyncio.Event:
        """The batch after `seq`, or, when there is nothing new, the bell that rings when there is.

        Watchers at the same place share one read. It is the bell that hung when the read began: a ring in between is heard.
        """
        if seq in self._batches:
            return self._batches[seq]
        if seq not in self._reads:
            read = asyncio.create_task(self._read(seq))
            read.add_done_callback(lambda _: self._reads.pop(seq, None))
            self._reads[seq] = read, self._bell
        read, bell = self._reads[seq]
        # Shielded: a watcher that leaves must not take the read away from the others.
        return await asyncio.shield(read) or bell

    async def open(self) -> None:
        """Listen at the door, before the first read, so that nothing falls between the two."""
        if self._doorbell is None:
            layer = get_channel_layer()
            try:
                channel = await layer.new_channel()
                await layer.group_add(f"run.{self.run_id}", channel)
            except Exception as error:  # the broker is away: watchers look for themselves
                logger.warning("run %s: no doorbell (%s); polling", self.run_id, error)
                return
            self._doorbell = asyncio.create_task(self._listen(channel))

    async def close(self) -> None:
        if self._doorbell is not None:
            self._doorbell.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._doorbell
            self._doorbell = None

    async def _listen(self, channel: str) -> None:
        layer = get_channel_layer()
        try:
            while True:
                await layer.receive(channel)
                rung, self._bell = self._bell, asyncio.Event()
                rung.set()
        except asyncio.CancelledError:
            with contextlib.suppress(Exception):
                await layer.group_discard(f"run.{self.run_id}", channel)
            raise
        except Exception:
            logger.warning("run %s: the doorbell broke; polling", self.run_id, exc_info=True)
            self._doorbell = None

    async def _read(self, seq: int) -> Batch | None:
        made = await database_sync_to_async(self._make)(seq, self._views.get(seq))
        if made is None:
            return None
        batch, view = made
        _keep(self._batches, seq, batch, KEPT)
        _keep(self._views, batch.upto, view, 4)
        return batch

    def _make(self, seq: int, before: View | None) -> tuple[Batch, View] | None:
        events, size = [], 0
        for event in events_after(self.run_id, seq, PAGE):
            size += len(json.dumps(event.payload))
            if events and size > MAX_BYTES:
                break
            events.append(event)
        if not events:
            return None
        before = before if before is not None else view_of(self.run_id, upto=seq)
        after = fold_all(before, events)
        html = fragments(self.run_id, before, after, events, RunBlobs(self.run_id))
        text = json.dumps({"seq": after.seq, "html": html, "status": after.status.status.value}, ensure_ascii=False)
        return Batch(seq, after.seq, text), after


def _keep(kept: OrderedDict[int, Any], key: int, value: Any, most: int) -> None:
    kept[key] = value
    kept.move_to_end(key)
    while len(kept) > most:
        kept.popitem(last=False)


_readers: dict[int, Reader] = {}


@contextlib.asynccontextmanager
async def reader_of(run_id: int) -> AsyncIterator[Reader]:
    """The process's reader of a run, shared; it goes when its last watcher does."""
    reader = _readers.get(run_id)
    if reader is None:
        reader = _readers[run_id] = Reader(run_id)
    reader.watchers += 1
    try:
        await reader.open()
        yield reader
    finally:
        reader.watchers -= 1
        if reader.watchers == 0:
            _readers.pop(run_id, None)
            await reader.close()
