"""Reads what a process prints, and ends it when it prints too much, lives too long or, without a group, grows too large.

One thread per process. With a resource group it sleeps until there is something to read, so that it does not disturb what is
being timed.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import threading
import time
from collections.abc import Callable
from pathlib import Path

from gpu_runner.contracts import Limits
from gpu_runner.sandbox.errors import ChildMemory, ChildOutputLimit, ChildTimedOut, SandboxError
from gpu_runner.sandbox.launch import Launched
from gpu_runner.sandbox.output import Capture

_PAGE = os.sysconf("SC_PAGE_SIZE")
_WATCH_S = 0.05
_GRACE_S = 0.5  # a request's own time-out comes first and has the better sentence


class Watcher:
    """Starts watching at once. `kill_for` is called from its thread, once. `deadline` (`time.monotonic`) may be set later."""

    def __init__(self, launched: Launched, limits: Limits, kill_for: Callable[[SandboxError], None]) -> None:
        self.capture = Capture()
        self.deadline = math.inf
        self._launched = launched
        self._limits = limits
        self._kill_for = kill_for
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._by_size = launched.group.kind == "none"
        self._thread = threading.Thread(target=self._work, name="stitchweb-watcher", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread after it has read what is left to read."""
        os.eventfd_write(self._wake, 1)
        self._thread.join()
        os.close(self._wake)

    def _work(self) -> None:
        poll = select.poll()
        poll.register(self._launched.output, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        fired = False
        while True:
            wait = _WATCH_S if self._by_size and not fired else min(1.0, max(0.0, self.deadline + _GRACE_S - time.monotonic()))
            events = dict(poll.poll(1000 * (1.0 if fired else wait)))
            if self._launched.output in events and not self._read():
                poll.unregister(self._launched.output)
            if self._wake in events:
                self._read()
                return
            if not fired and (error := self._excess()) is not None:
                fired = True
                self._kill_for(error)

    def _read(self) -> bool:
        """Takes what is there; False at the end of the stream. Bounded per call, since a flood never ends."""
        for _ in range(64):
            try:
                data = os.read(self._launched.output, 65_536)
            except BlockingIOError:
                return True
            if not data:
                return False
            self.capture.feed(data)
        return True

    def _excess(self) -> SandboxError | None:
        if self.capture.total > self._limits.output_kib * 1024:
            return ChildOutputLimit(f"The program printed more than {self._limits.output_kib} KiB, and was ended.")
        if time.monotonic() > self.deadline + _GRACE_S:
            return ChildTimedOut(f"The program did not finish within {self._limits.wall_s:g} s, and was ended.")
        if self._by_size and resident_bytes(self._launched.popen.pid) > self._limits.memory_mib << 20:
            return ChildMemory(f"The program used more than its {self._limits.memory_mib} MiB of memory, and was ended.")
        return None


def resident_bytes(pid: int) -> int:
    """Resident memory of a process and all its descendants; pages they share count for each."""
    total, pending = 0, [pid]
    while pending:
        folder = Path("/proc") / str(pending.pop())
        with contextlib.suppress(OSError, IndexError):
            total += int((folder / "statm").read_text().split()[1]) * _PAGE
            for task in (folder / "task").iterdir():
                pending += [int(word) for word in (task / "children").read_text().split()]
    return total
