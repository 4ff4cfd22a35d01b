"""The live stream of one run over a WebSocket. Read only: whatever a client sends is an acknowledgement or is ignored."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections import Counter
from typing import Any
from urllib.parse import parse_qs

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer

from stitchweb.runs.access import may_watch
from stitchweb.runs.stream import POLL_S, Reader, reader_of
from stitchweb.teams.models import User

logger = logging.getLogger(__name__)

ACK_S = 60.0  # a client that takes longer to show a batch is closed; it comes back with its cursor
ACCESS_S = 60.0  # how old the last look at the person's rights may be
SPACING_S = 0.05  # at most twenty batches a second and socket
BEAT_S = 20.0  # a quiet run says this often that it is only quiet: a dead network looks the same to a page
MAX_SOCKETS = 40  # per person and process
MAX_FRAME = 1000

SIGNED_OUT, NO_ACCESS, NOT_FOUND, BUSY, TRY_LATER = 4401, 4403, 4404, 4429, 1013

_open: Counter[int] = Counter()


class RunConsumer(AsyncWebsocketConsumer):
    """`/ws/runs/<pk>/?since=N`: everything after event N, in order, each batch sent when the one before was acknowledged.

    Messages out: {"seq", "html", "status"}, and {"seq"} alone as a sign of life. Messages in: {"ack": seq}. Closes with 4401
    signed out, 4403 no access any more, 4404 no such run (or not for this person), 4429 too many sockets, 1013 no
    acknowledgement.
    """

    pump: asyncio.Task[None] | None = None
    counted = False

    async def connect(self) -> None:
        await self.accept()  # first: a refused handshake would hide the code that says why
        user = self.scope.get("user")
        if user is None or not user.is_authenticated:
            await self.close(SIGNED_OUT)
            return
        self.user_id = user.pk
        self.run_id = int(self.scope["url_route"]["kwargs"]["pk"])
        self.acked = asyncio.Event()
        self.sent = 0
        if not await self._allowed():
            await self.close(NOT_FOUND)
            return
        if _open[self.user_id] >= MAX_SOCKETS:
            await self.close(BUSY)
            return
        _open[self.user_id] += 1
        self.counted = True
        self.pump = asyncio.create_task(self._run(self._since()))

    async def disconnect(self, code: int) -> None:
        if self.counted:
            self.counted = False
            _open[self.user_id] -= 1
            if not _open[self.user_id]:
                del _open[self.user_id]
        if self.pump is not None and self.pump is not asyncio.current_task():
            self.pump.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self.pump

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        if not text_data or len(text_data) > MAX_FRAME:
            return
        with contextlib.suppress(ValueError):
            message = json.loads(text_data)
            if isinstance(message, dict) and isinstance(message.get("ack"), int) and message["ack"] >= self.sent:
                self.acked.set()

    async def _run(self, since: int) -> None:
        try:
            async with reader_of(self.run_id) as reader:
                await self._pump(reader, since)
        except asyncio.CancelledError:
            raise
        except Exception:
            logger.exception("the stream of run %s broke", self.run_id)
            await self.close(1011)

    async def _pump(self, reader: Reader, cursor: int) -> None:
        clock = asyncio.get_running_loop().time
        looked = told = clock()
        while True:
            if clock() - looked >= ACCESS_S:
                if not await self._allowed():
                    await self.close(NO_ACCESS)
                    return
                looked = clock()
            batch = await reader.next(cursor)
            if isinstance(batch, asyncio.Event):
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(batch.wait(), POLL_S)
                if clock() - told >= BEAT_S:
                    await self.send(text_data=json.dumps({"seq": cursor}))
                    told = clock()
                continue
            self.acked.clear()
            self.sent = batch.upto
            await self.send(text_data=batch.text)
            try:
                await asyncio.wait_for(self.acked.wait(), ACK_S)
            except TimeoutError:
                await self.close(TRY_LATER)
                return
            cursor = batch.upto
            told = clock()
            await asyncio.sleep(SPACING_S)

    def _since(self) -> int:
        value = parse_qs(self.scope.get("query_string", b"").decode("latin-1")).get("since", ["0"])[0]
        return int(value) if value.isdecimal() and len(value) < 16 else 0

    @database_sync_to_async
    def _allowed(self) -> bool:
        """Signed in still, and in the team still. Three queries."""
        session: Any = self.scope.get("session")
        if session is not None and session.session_key and not session.exists(session.session_key):
            return False
        user = User.objects.filter(pk=self.user_id, is_active=True).first()
        return user is not None and may_watch(user, self.run_id)
