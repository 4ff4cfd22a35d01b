"""The live stream of one run over a WebSocket. Read only: whatever a client sends is an acknowledgement or is ignored.

A plain ASGI application: the consumer classes of Channels close old database connections in a thread for every message that
comes in and subscribe every socket to the broker. Two hundred pages that acknowledge ten batches a second pay for both.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs

from channels.db import database_sync_to_async

from stitchweb.core.limits import Held
from stitchweb.runs.access import may_watch
from stitchweb.runs.stream import Reader, reader_of
from stitchweb.teams.models import User

logger = logging.getLogger(__name__)

ACK_S = 60.0  # a client that takes longer to show a batch is closed; it comes back with its cursor
ACCESS_S = 60.0  # how old the last look at the person's rights may be
LOOKS = (0.5, 1.0)  # of that, by chance: sockets that came together would look together, and hold everybody up
BEAT_S = 20.0  # a quiet run says this often that it is only quiet: a dead network looks the same to a page
MAX_SOCKETS = 40  # per person and process
MAX_FRAME = 1000

SIGNED_OUT, NO_ACCESS, NOT_FOUND, BUSY, TRY_LATER, BROKEN = 4401, 4403, 4404, 4429, 1013, 1011

Message = dict[str, Any]

_open = Held()


Receive, Send = Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]


def accepted(inner: Application) -> Application:
    """`inner` with the handshake done before anything else. A refused one would hide the code that says why. And who it is has
    to wait for the database: on a busy site that takes longer than a server waits for a handshake, and pages that were dropped
    come again all at once."""

    async def application(scope: Message, receive: Receive, send: Send) -> None:
        await receive()  # websocket.connect
        await send({"type": "websocket.accept"})
        await inner(scope, receive, send)

    return application


async def watch(scope: Message, receive: Receive, send: Send) -> None:
    """`/ws/runs/<pk>/?since=N`, an accepted socket: everything after event N, in order, each batch sent when the one before was
    acknowledged.

    Messages out: {"seq", "html", "status"}, and {"seq"} alone as a sign of life. Messages in: {"ack": seq}. Closes with 4401
    signed out, 4403 no access any more, 4404 no such run (or not for this person), 4429 too many sockets, 1013 no
    acknowledgement, 1011 our own error.
    """
    user = scope.get("user")
    if user is None or not user.is_authenticated:
        await send({"type": "websocket.close", "code": SIGNED_OUT})
        return
    socket = _Socket(scope, send)
    if not await socket.allowed():
        await socket.close(NOT_FOUND)
        return
    if _open[user.pk] >= MAX_SOCKETS:
        await socket.close(BUSY)
        return
    with _open.one(user.pk):
        pump = asyncio.create_task(socket.run())
        try:
            while (message := await receive())["type"] != "websocket.disconnect":
                socket.hear(message.get("text"))
        finally:
            pump.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await pump


async def nowhere(scope: Message, receive: Receive, send: Send) -> None:
    """Any other address: the handshake is refused, where Channels would raise and fill the log for whoever asks."""
    await receive()
    await send({"type": "websocket.close"})


def _until_a_look() -> float:
    return ACCESS_S * random.uniform(*LOOKS)  # noqa: S311 - nothing secret


class _Socket:
    """An accepted socket: who holds it, of which run, and how far it is."""

    def __init__(self, scope: Message, send: Send) -> None:
        self.send = send
        self.session: Any = scope.get("session")
        self.user_id: int = scope["user"].pk
        self.run_id = int(scope["url_route"]["kwargs"]["pk"])
        since = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("since", ["0"])[0]
        self.cursor = int(since) if since.isdecimal() and len(since) < 16 else 0
        self.sent = 0
        self.acked = asyncio.Event()

    def hear(self, text: str | None) -> None:
        """Take an acknowledgement; anything else is ignored."""
        if not text or len(text) > MAX_FRAME:
            return
        with contextlib.suppress(ValueError, RecursionError):
            message = json.loads(text)
            if isinstance(message, dict) and isinstance(message.get("ack"), int) and message["ack"] >= self.sent:
                self.acked.set()

    async def close(self, code: int) -> None:
        await self.send({"type": "websocket.close", "code": code})

    async def run(self) -> None:
        """Send what the run tells until the socket is to be closed, and close it."""
        try:
            async with reader_of(self.run_id) as reader:
                code = await self._pump(reader)
        except Exception:
            logger.exception("the stream of run %s broke", self.run_id)
            code = BROKEN
        await self.close(code)

    async def _pump(self, reader: Reader) -> int:
        clock = asyncio.get_running_loop().time
        told = clock()
        look = told + _until_a_look()
        while True:
            if clock() >= look:
                if not await self.allowed():
                    return NO_ACCESS
                look = clock() + _until_a_look()
            try:
                async with asyncio.timeout_at(min(told + BEAT_S, look)):
                    batch = await reader.next(self.cursor)
            except TimeoutError:
                if clock() - told >= BEAT_S:
                    await self.send({"type": "websocket.send", "text": json.dumps({"seq": self.cursor})})
                    told = clock()
                continue
            self.acked.clear()
            self.sent = batch.upto
            await self.send({"type": "websocket.send", "text": batch.text})
            try:
                async with asyncio.timeout(ACK_S):
                    await self.acked.wait()
            except TimeoutError:
                return TRY_LATER
            self.cursor = batch.upto
            told = clock()

    @database_sync_to_async
    def allowed(self) -> bool:
        """Signed in still, and in the team still. Three queries."""
        if self.session is not None and self.session.session_key and not self.session.exists(self.session.session_key):
            return False
        user = User.objects.filter(pk=self.user_id, is_active=True).first()
        return user is not None and may_watch(user, self.run_id)
