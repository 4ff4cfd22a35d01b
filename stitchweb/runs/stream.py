"""One reader per run and process: fetches and renders each batch of events once, for all sockets that watch the run.

The channel layer only rings ("there is something up to N"); what is sent is read from the table. A ring that is lost costs a
watcher two seconds, never an event.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from channels.db import database_sync_to_async
from channels.layers import get_channel_layer

from agents.events import View, fold_all
from stitchweb.core.measures import event_lag
from stitchweb.runs.blobs import RunBlobs
from stitchweb.runs.history import PAGE, events_after, last_seq, view_of
from stitchweb.runs.render import fragments

logger = logging.getLogger(__name__)

MAX_BYTES = 256 * 1024  # of events in one batch
POLL_S = 2.0  # between two looks at the table, in case that a ring was lost
RETRY_S = 60.0  # at most, between two attempts to reach the broker
SPACING_S = 0.05  # at most twenty batches a second and run,
SPACING = 2.0  # and at least so many times what making one took: of a busy process, fewer and larger batches
MOST_SPACING_S = 0.5
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
        # Pages that come back after a restart are all at another event, most of them before the newest snapshot. To fold a long
        # run from its beginning for each of them would keep a process busy for minutes, so what was folded once stays.
        self._marks: dict[int, View] = {}
        self._folding = threading.Lock()
        self._reads: dict[int, asyncio.Task[Batch | None]] = {}
        self._bell = asyncio.Event()
        self._known = self._rung = -1  # the last event that we know of, and the last that watchers were told of
        self._pause: asyncio.TimerHandle | None = None
        self._spacing = SPACING_S
        self._tasks: list[asyncio.Task[None]] = []
        self._since = time.time()  # what was told before somebody watched is not late

    async def next(self, seq: int) -> Batch:
        """The batch after `seq`, waited for. Watchers at the same place share one read."""
        while True:
            bell = self._bell
            if seq < self._rung and (batch := self._batches.get(seq) or await self._shared(seq)):
                return batch
            await bell.wait()

    async def news(self, seq: int) -> None:
        """Wait until there is something after `seq`, for those who read the events themselves."""
        while seq >= self._rung:
            await self._bell.wait()

    def open(self) -> None:
        self._tasks = [asyncio.create_task(self._listen()), asyncio.create_task(self._look_now_and_then())]

    async def close(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _listen(self) -> None:
        """Hear the doorbell. While the broker is away, the look at the table every two seconds has to do."""
        layer, group, wait = get_channel_layer(), f"run.{self.run_id}", POLL_S
        while True:
            channel = ""
            try:
                channel = await layer.new_channel()
                await layer.group_add(group, channel)
                await self._look()  # nothing may fall between the first look and the bell
                while True:
                    self._hear((await layer.receive(channel))["seq"])
            except asyncio.CancelledError:
                with contextlib.suppress(Exception):
                    await layer.group_discard(group, channel)
                raise
            except Exception as error:
                logger.warning(
                    "run %s: the broker cannot be reached (%s). Its live pages look for news every %g s instead of being told; "
                    "the next attempt is in %g s.", self.run_id, error, POLL_S, wait
                )  # fmt: skip
                await asyncio.sleep(wait)
                wait = min(2 * wait, RETRY_S)

    async def _look_now_and_then(self) -> None:
        while True:
            try:
                await self._look()
            except Exception:
                logger.warning("run %s: its events cannot be read now", self.run_id, exc_info=True)
            await asyncio.sleep(POLL_S)

    async def _look(self) -> None:
        self._hear(await database_sync_to_async(last_seq)(self.run_id))

    def _hear(self, seq: int) -> None:
        """There is something up to `seq`: tell the watchers, now or when the last ring is long enough ago."""
        self._known = max(self._known, seq)
        if self._pause is None and self._known > self._rung:
            self._rung = self._known
            rung, self._bell = self._bell, asyncio.Event()
            rung.set()
            self._pause = asyncio.get_running_loop().call_later(self._spacing, self._paused)

    def _paused(self) -> None:
        self._pause = None
        self._hear(self._known)

    async def _shared(self, seq: int) -> Batch | None:
        read = self._reads.get(seq)
        if read is None:
            read = self._reads[seq] = asyncio.create_task(self._read(seq))
            read.add_done_callback(lambda _: self._reads.pop(seq, None))
        # Shielded: a watcher that leaves must not take the read away from the others.
        return await asyncio.shield(read)

    async def _read(self, seq: int) -> Batch | None:
        began, before = time.monotonic(), self._views.get(seq)
        made = await database_sync_to_async(self._make)(seq, before)
        if made is None:
            return None
        if before is not None:
            took = time.monotonic() - began
            self._spacing = min(MOST_SPACING_S, max(SPACING_S, SPACING * took))
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
        if before is None:
            with self._folding:
                before = view_of(self.run_id, seq, self._marks)
        after = fold_all(before, events)
        html = fragments(self.run_id, before, after, events, RunBlobs(self.run_id))
        if events[-1].at >= self._since:
            event_lag().observe(max(0.0, time.time() - events[-1].at))
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
        reader.open()
    reader.watchers += 1
    try:
        yield reader
    finally:
        reader.watchers -= 1
        if reader.watchers == 0:
            _readers.pop(run_id, None)
            await reader.close()
