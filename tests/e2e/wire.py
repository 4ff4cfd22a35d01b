"""The network between a browser and a site, which a test can cut: a relay of TCP connections on a port of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Wire:
    """A relay to a local port. Cut, it resets every connection and takes no new one; mended, it carries again.

    A browser's own "offline" switch is no such thing: whether it touches open WebSockets differs between versions.
    """

    def __init__(self, to_port: int) -> None:
        self.to_port = to_port
        self.carries = True
        self.ends: set[asyncio.StreamWriter] = set()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        start = asyncio.run_coroutine_threadsafe(asyncio.start_server(self._accept, "127.0.0.1", 0), self.loop)
        self.server = start.result(10)
        self.base = f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}"

    def cut(self) -> None:
        self.loop.call_soon_threadsafe(self._cut)

    def mend(self) -> None:
        self.carries = True

    def _cut(self) -> None:
        self.carries = False
        for end in self.ends:
            end.transport.abort()

    async def end(self) -> None:
        """Reset what is left and wait until nothing is relayed any more."""
        self._cut()
        self.server.close()
        relays = asyncio.all_tasks() - {asyncio.current_task()}
        if relays:
            await asyncio.wait(relays, timeout=10)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.carries:
            writer.transport.abort()
            return
        with suppress(OSError):
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.to_port)
            await asyncio.gather(self._carry(reader, far_writer), self._carry(far_reader, writer))

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.ends.add(writer)
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        self.ends.discard(writer)
        writer.close()


@contextmanager
def wire(to_port: int) -> Iterator[Wire]:
    """A wire that lies until the block ends."""
    line = Wire(to_port)
    try:
        yield line
    finally:
        asyncio.run_coroutine_threadsafe(line.end(), line.loop).result(20)
        line.loop.call_soon_threadsafe(line.loop.stop)
        line.thread.join(10)
