"""What other processes did on the CPUs while a call was measured, from the scheduler's own nanoseconds in `/proc`.

A program that shares its cores with a neighbour for a moment loses far more than the neighbour's share: the thread that was
put aside keeps all others of a parallel loop waiting. Such a sample says nothing about the program, and knowing which they are
costs less than drowning them in more samples. The measured program's own processes do not count: it has no say in what is
dropped.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

MAX_THREADS = 1500  # a look at more would cost more than it tells


class Neighbours:
    """Reads how long every thread of the machine has run. `start` before a call, `share` after it."""

    def __init__(self) -> None:
        self._idle: set[str] = set()  # kernel threads: too many to read, too small to matter
        self._mine: set[str] = set()
        self._before: dict[str, int] = {}
        self._since = 0

    def start(self, root: int) -> None:
        """The call of the program whose outermost process is `root` begins."""
        self._mine = {str(os.getpid()), *map(str, _descendants(root))}
        self._before = dict(self._times())
        self._since = time.perf_counter_ns()

    def share(self) -> float | None:
        """CPU time that others took since `start`, as a share of one core (0.5: half a core). None where it cannot be seen."""
        elapsed = time.perf_counter_ns() - self._since
        # A thread that is new since then may have run all the while.
        others = sum(max(0, ran - self._before.get(path, 0)) for path, ran in self._times())
        if not self._before or len(self._before) > MAX_THREADS:
            return None
        return others / max(1, elapsed)

    def _times(self) -> Iterator[tuple[str, int]]:
        """(thread, nanoseconds it has run) of every thread but the program's and ours."""
        seen = 0
        for pid in filter(str.isdecimal, os.listdir("/proc")):
            if pid in self._mine or pid in self._idle:
                continue
            try:
                if _is_kernel(pid):
                    self._idle.add(pid)
                    continue
                for thread in os.listdir(f"/proc/{pid}/task"):
                    path = f"/proc/{pid}/task/{thread}/schedstat"
                    yield path, int(_read(path).split()[0])
                    seen += 1
            except (OSError, ValueError, IndexError):
                continue  # it ended while we looked
            if seen > MAX_THREADS:
                return


def ran(root: int, first_threads: bool = False) -> int:
    """Nanoseconds that the process `root` and all that it started have run so far; of their first threads alone, if wanted.

    The kernel brings the number of a running thread up to date every few milliseconds, that of a sleeping one is exact.
    """
    total = 0
    for pid in _descendants(root):
        try:
            for thread in [str(pid)] if first_threads else os.listdir(f"/proc/{pid}/task"):
                total += int(_read(f"/proc/{pid}/task/{thread}/schedstat").split()[0])
        except (OSError, ValueError, IndexError):
            continue  # it ended while we looked
    return total


def rests(root: int) -> bool:
    """Whether no thread of the process `root`, and of all that it started, runs or wants to."""
    for pid in _descendants(root):
        try:
            for thread in os.listdir(f"/proc/{pid}/task"):
                if _read(f"/proc/{pid}/task/{thread}/stat").rpartition(b") ")[2][:1] == b"R":
                    return False
        except OSError:
            continue  # it ended while we looked
    return True


def _read(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, 4096)
    finally:
        os.close(fd)


def _is_kernel(pid: str) -> bool:
    """Kernel threads have no command line; neither has a process that is ending."""
    return not _read(f"/proc/{pid}/cmdline")


def _descendants(root: int) -> list[int]:
    found = [root]
    for pid in found:
        try:
            for thread in os.listdir(f"/proc/{pid}/task"):
                found += map(int, _read(f"/proc/{pid}/task/{thread}/children").split())
        except OSError:
            continue
    return found
