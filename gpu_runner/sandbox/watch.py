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
from gpu_runner.sandbox.keeper.main import descendants
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
        if self._by_size and grown_beyond(self._launched.keeper.pid, self._limits.memory_mib << 20):
            return ChildMemory(f"The program used more than its {self._limits.memory_mib} MiB of memory, and was ended.")
        return None


def grown_beyond(pid: int, size: int) -> bool:
    """Whether the descendants of a keeper hold more than `size` bytes of memory that is mapped."""
    family = descendants(pid)[1:]
    # Cheap and never too small, since pages that processes share count for each; the exact answer walks the page tables.
    return _sum(family, resident_bytes) > size and _sum(family, proportional_bytes) > size


def resident_bytes(pid: int) -> int:
    """The memory of one process, shared pages whole."""
    return int(Path("/proc", str(pid), "statm").read_text().split()[1]) * _PAGE


def proportional_bytes(pid: int) -> int:
    """The memory of one process, each shared page divided by those who share it."""
    try:
        rollup = Path("/proc", str(pid), "smaps_rollup").read_text()
    except PermissionError:
        return resident_bytes(pid)
    return next((int(line.split()[1]) << 10 for line in rollup.splitlines() if line.startswith("Pss:")), 0)


def _sum(pids: list[int], size: Callable[[int], int]) -> int:
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError, IndexError):  # it may end while it is looked at
            total += size(pid)
    return total
