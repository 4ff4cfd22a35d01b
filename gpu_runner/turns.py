"""Who may use a device now: whoever measures has it alone, whoever computes without measuring shares it with its like.

The hands of one process come in by times of theirs (`phases`); between processes locks on files decide, so that a process that
dies gives back what it had. Nobody asks for a turn while holding one, but for the device beside others while holding a place to
compile or to watch. Whoever shares the device makes room between two requests to a program's process, however long its work is.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

from gpu_runner.config import config, private_folder
from gpu_runner.hands import Cancelled
from gpu_runner.job import Job
from gpu_runner.phases import Kind, Phases

WAITING = "waiting: another measurement has the device"
CORES_PER_COMPILER = 4
POLL_S = 0.02

_waits: ContextVar[list[float] | None] = ContextVar("waits", default=None)
_shared: ContextVar[_Shared | None] = ContextVar("shared", default=None)
_phases: dict[str, Phases] = {}
_making = threading.Lock()


@contextlib.contextmanager
def alone(job: Job) -> Iterator[None]:
    """Nobody else of this machine's hands computes on the job's device meanwhile. Raises Cancelled while it waits."""
    with _device(job, "alone"):
        yield


@contextlib.contextmanager
def beside(job: Job, long: bool = False) -> Iterator[None]:
    """Nobody measures on the job's device meanwhile; others may compute there as well. Raises Cancelled while it waits.

    Whoever wants the device alone gets it between two requests (`make_room`). `long`: of a single request, which takes long.
    """
    mine = _Shared(job, "long" if long else "beside")
    mine.enter()
    token = _shared.set(mine)
    try:
        yield
    finally:
        _shared.reset(token)
        mine.leave()


def make_room() -> None:
    """Between two requests of one who shares a device: lets those measure who have waited for it. Raises Cancelled while it
    waits. Does nothing for others."""
    if (mine := _shared.get()) is not None:
        mine.make_room()


@contextlib.contextmanager
def compiler(job: Job) -> Iterator[None]:
    """One of the machine's places to compile a reference in: a core in four, so that those who measure find cores that rest.
    Raises Cancelled while it waits."""
    places = compilers()
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(_opened(f"compile-{number}.lock")) for number in range(places)]
        with _waited(job):
            while not any(_tried(file, fcntl.LOCK_EX) for file in files):
                _look(job)
                time.sleep(POLL_S)
        yield


@contextlib.contextmanager
def watching(job: Job) -> Iterator[None]:
    """The machine's one place for a tool that keeps the whole device busy: two of them would both run out of time. Raises
    Cancelled while it waits."""
    with _opened(f"watch-{job.device}.lock") as place:
        with _waited(job):
            while not _tried(place, fcntl.LOCK_EX):
                _look(job)
                time.sleep(POLL_S)
        yield


@contextlib.contextmanager
def clocked() -> Iterator[list[float]]:
    """Collects the seconds that this thread waits for its turns."""
    waits: list[float] = []
    token = _waits.set(waits)
    try:
        yield waits
    finally:
        _waits.reset(token)


def compilers() -> int:
    """How many references this machine compiles at once."""
    return max(1, len(os.sched_getaffinity(0)) // CORES_PER_COMPILER)


def compile_threads(much: bool = False) -> int:
    """In how many processes each of them may compile kernels: all together leave four cores to whoever measures. `much`: one
    that has many and ends soon gets half of the cores; its processes take no core that others want."""
    cores, places = len(os.sched_getaffinity(0)), compilers()
    if places == 1:
        return cores
    return max(1, cores // 2 if much else (cores - CORES_PER_COMPILER) // places)


class _Shared:
    """A turn beside others, which can be left and taken again."""

    def __init__(self, job: Job, kind: Kind) -> None:
        self._job, self._kind = job, kind
        self._held = contextlib.ExitStack()

    def enter(self) -> None:
        self._held.enter_context(_device(self._job, self._kind))

    def leave(self) -> None:
        self._held.close()

    def make_room(self) -> None:
        if _of(self._job.device).gives_way() or _asked_for(self._job.device):
            self.leave()
            self.enter()


def _of(device: str) -> Phases:
    with _making:
        return _phases.setdefault(device, Phases())


def _asked_for(device: str) -> bool:
    """Whether somebody of another process stands in the gate. One of this process that just passes there does no harm."""
    with _opened(f"queue-{device}.lock") as gate:
        return not _tried(gate, fcntl.LOCK_SH)


@contextlib.contextmanager
def _device(job: Job, kind: Kind) -> Iterator[None]:
    before = job.doing

    def rest() -> None:
        if job.doing != WAITING:
            job.stage(WAITING)
        _look(job)

    with contextlib.ExitStack() as held:
        with _waited(job):
            held.enter_context(_of(job.device).turn(kind, rest))
            turn = held.enter_context(_opened(f"measure-{job.device}.lock"))
            # All come through the gate, where whoever wants the device alone stands until those before have left it: otherwise
            # a few processes that share it in turns would keep it for ever.
            with _opened(f"queue-{job.device}.lock") as gate:
                for file, wanted in ((gate, fcntl.LOCK_EX), (turn, fcntl.LOCK_EX if kind == "alone" else fcntl.LOCK_SH)):
                    while not _tried(file, wanted):
                        rest()
                        time.sleep(POLL_S)
        if job.doing == WAITING and before:
            job.stage(before)
        yield


def locks() -> Path:
    """The folder of the lock files, one for all runners of a user."""
    return private_folder(config().runtime_dir)


@contextlib.contextmanager
def _opened(name: str) -> Iterator[int]:
    """A lock file, opened anew: only then two threads of a process exclude each other."""
    fd = os.open(locks() / name, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        yield fd
    finally:
        # Closing alone would not do: a process forked meanwhile may hold a copy of the descriptor.
        fcntl.flock(fd, fcntl.LOCK_UN)
        os.close(fd)


def _tried(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _look(job: Job) -> None:
    if job.cancelled():
        raise Cancelled("The job was cancelled.")


@contextlib.contextmanager
def _waited(job: Job) -> Iterator[None]:
    """What is waited for others is no time of the job's own."""
    began = time.monotonic()
    try:
        yield
    finally:
        seconds = time.monotonic() - began
        job.deadline += seconds
        if (waits := _waits.get()) is not None:
            waits.append(seconds)
