"""Who may use a device now: whoever measures has it alone, whoever computes without measuring shares it with its like.

Locks on files, so that all hands of a machine stand in one queue, whichever process they are in, and a process that dies gives
back what it had. Nobody asks for a turn while holding one, but for the device beside others while holding a place to compile.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

from gpu_runner.config import config, private_folder
from gpu_runner.hands import Cancelled
from gpu_runner.job import Job

WAITING = "waiting: another measurement has the device"
CORES_PER_COMPILER = 4
POLL_S = 0.02

_waits: ContextVar[list[float] | None] = ContextVar("waits", default=None)


@contextlib.contextmanager
def alone(job: Job) -> Iterator[None]:
    """Nobody else of this machine's hands computes on the job's device meanwhile. Raises Cancelled while it waits."""
    with _device(job, fcntl.LOCK_EX):
        yield


@contextlib.contextmanager
def beside(job: Job) -> Iterator[None]:
    """Nobody measures on the job's device meanwhile; others may compute there as well. Raises Cancelled while it waits."""
    with _device(job, fcntl.LOCK_SH):
        yield


@contextlib.contextmanager
def compiler(job: Job) -> Iterator[None]:
    """One of the machine's places to compile a reference in: a core in four, so that those who measure find cores that rest.
    Raises Cancelled while it waits."""
    places = compilers()
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(_opened(f"compile-{number}.lock")) for number in range(places)]
        with _waited(job):
            while not any(_tried(file, fcntl.LOCK_EX) for file in files):
                _rest(job)
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


def compile_threads() -> int:
    """In how many processes each of them may compile kernels: all of them together leave four cores to whoever measures."""
    cores, places = len(os.sched_getaffinity(0)), compilers()
    return cores if places == 1 else max(1, (cores - CORES_PER_COMPILER) // places)


@contextlib.contextmanager
def _device(job: Job, kind: int) -> Iterator[None]:
    with _opened(f"measure-{job.device}.lock") as turn:
        # All come through the gate, where whoever wants the device alone stands until those before have left it: otherwise
        # a few that share it in turns would keep it for ever.
        with _opened(f"queue-{job.device}.lock") as gate, _waited(job):
            told = False
            for file, wanted in ((gate, fcntl.LOCK_EX), (turn, kind)):
                while not _tried(file, wanted):
                    if not told:
                        job.stage(WAITING)
                        told = True
                    _rest(job)
        yield


@contextlib.contextmanager
def _opened(name: str) -> Iterator[int]:
    """A lock file, opened anew: only then two threads of a process exclude each other."""
    folder: Path = private_folder(config().runtime_dir)
    fd = os.open(folder / name, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
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


def _rest(job: Job) -> None:
    if job.cancelled():
        raise Cancelled("The job was cancelled.")
    time.sleep(POLL_S)


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
