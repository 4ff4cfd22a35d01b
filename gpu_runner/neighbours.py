"""What other processes did on the CPUs while a call was measured, from the scheduler's own nanoseconds in `/proc`.

A program that shares its cores with a neighbour for a moment loses far more than the neighbour's share: the thread that was
put aside keeps all others of a parallel loop waiting. Such a sample says nothing about the program, and knowing which they are
costs less than drowning them in more samples. The measured program's own processes do not count: it has no say in what is
dropped.
"""

from __future__ import annotations

import contextlib
import os
import resource
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

MAX_THREADS = 1500  # a look at more would cost more than it tells
_BYTES = 512  # of a `stat`: the name is at most 64 of them, the state follows
_FLAGS, _PF_KTHREAD = 6, 0x0020_0000  # the field after the name that holds a task's flags; proc_pid_stat(5), linux/sched.h


@dataclass
class _Thread:
    """One thread with its files kept open, so that a look is one read."""

    pid: int
    first: bool  # it is its process' first
    schedstat: int
    stat: int

    def ran(self) -> int:
        """Nanoseconds on a CPU so far; OSError once it has ended."""
        return self._numbers()[0]

    def waited(self) -> int:
        """Nanoseconds that it waited for a CPU so far; OSError once it has ended."""
        return self._numbers()[1]

    def _numbers(self) -> list[int]:
        return [int(text) for text in os.pread(self.schedstat, 64, 0).split()] or [0, 0]

    def runs(self) -> bool:
        """Whether it runs or wants to."""
        return os.pread(self.stat, _BYTES, 0).rpartition(b") ")[2][:1] == b"R"

    def close(self) -> None:
        os.close(self.schedstat)
        os.close(self.stat)


@dataclass
class Neighbours:
    """Every thread of the machine, looked up anew whenever one was started since. Not thread-safe; close it.

    The kernel brings the nanoseconds of a running thread up to date every few milliseconds, those of a sleeping one are exact.
    """

    _threads: dict[str, _Thread] = field(default_factory=dict)  # by "pid/tid"
    _kernel: set[str] = field(default_factory=set)  # kernel threads: too many to read, too small to matter
    _families: dict[int, set[int]] = field(default_factory=dict)
    _seen: str = ""  # the last process id that was given out when we looked
    _mine: set[int] = field(default_factory=set)
    _before: dict[str, int] = field(default_factory=dict)
    _since: int = 0
    _root: int = 0
    _waited: int = 0

    def start(self, root: int) -> None:
        """The call of the program whose outermost process is `root` begins."""
        self._renew()
        self._mine = {os.getpid(), *self._family(root)}
        self._root = root
        self._before = self._others()
        self._waited = self.waited(root)
        self._since = time.perf_counter_ns()

    def share(self) -> float | None:
        """CPU time that others took since `start`, as a share of one core (0.5: half a core). None where it cannot be seen."""
        elapsed = time.perf_counter_ns() - self._since
        self._renew()  # a thread that is new since then may have run all the while
        now = self._others()
        if not self._before or len(now) > _most():
            return None
        return sum(max(0, ran - self._before.get(name, 0)) for name, ran in now.items()) / max(1, elapsed)

    def disturbance(self) -> float | None:
        """What others took from the program since `start`, as a share of the time since then; None where it cannot be seen.

        It is what they ran or what the program's threads waited for a core, whichever is less: a neighbour on a core that
        nobody wanted disturbs little, and a program that waits for its own threads is disturbed by nobody.
        """
        elapsed = max(1, time.perf_counter_ns() - self._since)
        share = self.share()
        if share is None:
            return None
        waited = self.waited(self._root) - self._waited  # below zero where a thread ended and took its number along
        return min(share, max(0, waited) / elapsed)

    def waited(self, root: int) -> int:
        """Nanoseconds that threads of the process `root`, and of all that it started, have waited for a core so far."""
        self._renew()
        total = 0
        for thread in self._of(self._family(root)):
            with contextlib.suppress(OSError):
                total += thread.waited()
        return total

    def ran(self, root: int, first_threads: bool = False) -> int:
        """Nanoseconds that the process `root` and all that it started have run so far; of first threads alone, if wanted."""
        self._renew()
        total = 0
        for thread in self._of(self._family(root)):
            if thread.first or not first_threads:
                with contextlib.suppress(OSError):  # it ended while we looked
                    total += thread.ran()
        return total

    def rest(self, roots: Iterable[int]) -> bool:
        """Whether no thread of these processes, and of all that they started, runs or wants to."""
        self._renew()
        for thread in self._of(set().union(*map(self._family, roots))):
            with contextlib.suppress(OSError):
                if thread.runs():
                    return False
        return True

    def close(self) -> None:
        """Give the files back."""
        for thread in self._threads.values():
            thread.close()
        self._threads.clear()
        self._seen = ""

    # ---- looking up --------------------------------------------------------------------------------------------------

    def _of(self, pids: set[int]) -> list[_Thread]:
        return [thread for thread in self._threads.values() if thread.pid in pids]

    def _others(self) -> dict[str, int]:
        found = {}
        for name, thread in list(self._threads.items()):
            if thread.pid not in self._mine:
                try:
                    found[name] = thread.ran()
                except OSError:  # it ended; its id may be given out again
                    self._threads.pop(name).close()
        return found

    def _family(self, root: int) -> set[int]:
        if root not in self._families:
            self._families[root] = family(root)
        return self._families[root]

    def _renew(self) -> None:
        """Every new thread gets a new id, and the last one given out is the last word of `/proc/loadavg`."""
        last = _read("/proc/loadavg").split()[-1].decode()
        if last == self._seen:
            return
        self._seen = last
        self._families.clear()
        names = set()
        for pid in filter(str.isdecimal, os.listdir("/proc")):
            if pid in self._kernel:
                continue
            with contextlib.suppress(OSError):  # it ended while we looked
                if _is_kernel(pid):
                    self._kernel.add(pid)
                    continue
                for tid in os.listdir(f"/proc/{pid}/task"):
                    names.add(f"{pid}/{tid}")
                    if f"{pid}/{tid}" not in self._threads:
                        self._add(pid, tid)
            if len(names) > _most():
                break
        for gone in self._threads.keys() - names:
            self._threads.pop(gone).close()

    def _add(self, pid: str, tid: str) -> None:
        folder = f"/proc/{pid}/task/{tid}"
        first = os.open(f"{folder}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            second = os.open(f"{folder}/stat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            os.close(first)
            raise
        self._threads[f"{pid}/{tid}"] = _Thread(int(pid), pid == tid, first, second)


def _most() -> int:
    """How many threads are looked at: what is worth it, and a quarter of the files that we may open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_THREADS if soft == resource.RLIM_INFINITY else min(MAX_THREADS, soft // 4)


def _read(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, 4096)
    finally:
        os.close(fd)


def _is_kernel(pid: str) -> bool:
    """By the kernel's own flag: a program can empty its command line, but not become a kernel thread."""
    return bool(int(_read(f"/proc/{pid}/stat").rpartition(b") ")[2].split()[_FLAGS]) & _PF_KTHREAD)


def family(root: int) -> set[int]:
    """The process `root` and all that it started, and they."""
    found = [root]
    for pid in found:
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                found += map(int, _read(f"/proc/{pid}/task/{thread}/children").split())
    return set(found)
