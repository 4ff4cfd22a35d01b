"""Keeps one sandbox: forks the processes that become it, and ends and buries all of it when it ends, when the owner says so, or
when the owner is gone, whatever the moment.

A death signal alone would not do. It follows the thread that started a process, not the process; and bubblewrap's inner process
waits, before it takes one, for a word that a bubblewrap killed at that moment never says.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import stay
from .become import become, check, drop_to
from .enter import enter

_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


def adopt_orphans() -> int:
    """Has the kernel make every orphan below this process its child; negative where it does not."""
    return int(_libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0))


def children(pid: int) -> list[int]:
    """The child processes of all threads of `pid`; none when it is gone."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            # A thread may end while it is looked at; its children are another one's then.
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/children") as file:
                found += [int(word) for word in file.read().split()]
    return found


def descendants(pid: int) -> list[int]:
    """`pid` and everything it started that still hangs together, parents first."""
    found = [pid]
    for known in found:
        found += children(known)
    return found


def _kill_user(uid: int) -> None:
    """Ends every process of `uid` in one step, which no process that forks can outrun: the kernel stops forks meanwhile."""
    helper = os.fork()
    if helper == 0:
        try:
            drop_to(uid)
            if os.getresuid() == (uid, uid, uid) and uid != 0:  # as root the next line would end the machine
                os.kill(-1, signal.SIGKILL)
        finally:
            os._exit(0)
    os.waitpid(helper, 0)


def _bury(first: int, status: int | None) -> tuple[int | None, bool]:
    """Buries what is dead: the status of `first` once it is (it may be the last one), and whether anybody is left."""
    with contextlib.suppress(ChildProcessError):
        while (reaped := os.waitpid(-1, os.WNOHANG))[0]:
            if reaped[0] == first:
                status = reaped[1]
        return status, True
    return status, False


def end(first: int, uid: int | None, status: int | None) -> int:
    """Ends all processes below this one and returns the status of `first`. `uid`: a user whose every process is to end.

    Orphans come to this process, its reaper, so none is missed; a namespace's first process is reported dead only when every
    other one in it is gone.
    """
    while True:
        if status is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(first, signal.SIGKILL)
        for pid in descendants(os.getpid())[1:]:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if uid is not None:
            _kill_user(uid)
        status, left = _bury(first, status)
        if not left:
            return status or 0
        time.sleep(0.001)


def _tidy(order: dict[str, Any], owner_gone: bool) -> None:
    """Removes what the job left on disk, and what the owner can no longer remove."""
    if order["scratch"] and os.path.isdir(order["scratch"]):
        # Not in this process: a program may nest folders deeper than Python recurses, or take its own rights to them away.
        if order["uid"] is None:
            os.spawnv(os.P_WAIT, "/bin/chmod", ["chmod", "-Rf", "u+rwX", order["scratch"]])  # noqa: S606
        os.spawnv(os.P_WAIT, "/bin/rm", ["rm", "-rf", "--", order["scratch"]])  # noqa: S606
    if owner_gone:
        for path in order["groups"]:
            with contextlib.suppress(OSError):
                os.rmdir(os.path.dirname(path))


def _guarded(step: Callable[[], stay.Program]) -> stay.Program:
    """A step of a forked process: where it fails, that is said on standard error and the process ends."""
    try:
        return step()
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        os.write(2, f"stitchweb-keeper: {where}{error.strerror or error}\n".encode())
    except BaseException as error:
        os.write(2, f"stitchweb-keeper: {type(error).__name__}: {error}\n".encode())
    os._exit(1)


@dataclass
class _Kept:
    """`first`: the process whose end is the sandbox's. `word`: the pipe that the holder of the namespaces listens to."""

    order: dict[str, Any]
    owner: int
    first: int = -1
    word: int = -1
    program: stay.Program | None = None  # set in the process that is to be it

    def start(self) -> None:
        """Forks the process that becomes the program, or bubblewrap."""
        keeper = os.getpid()
        ends = [*os.pipe2(os.O_CLOEXEC), *os.pipe2(os.O_CLOEXEC)] if self.order["entered"] else []
        self.first = os.fork()
        if self.first == 0:
            if ends:
                os.dup2(ends[0], 0)
                os.dup2(ends[3], 1)
            self.program = _guarded(lambda: become(self.order, keeper))
        elif ends:
            for end in (ends[0], ends[3]):
                os.close(end)
            self.word = ends[1]
            if self._holder_speaks(ends[2]):
                self._enter()

    def _holder_speaks(self, listen: int) -> bool:
        """Whether the namespaces are made and held: what is said in them comes back."""
        poll = select.poll()
        for fd in (listen, self.owner, self.order["kept"][0]):
            poll.register(fd, select.POLLIN)
        with contextlib.suppress(BrokenPipeError):
            os.write(self.word, b".")
        ready = [fd for fd, _ in poll.poll()]
        answered = ready == [listen] and os.read(listen, 1) == b"."
        os.close(listen)
        return answered

    def _enter(self) -> None:
        """Forks the process whose fork is the program, in those namespaces, and takes that over as a child."""
        listen, tell = os.pipe2(os.O_CLOEXEC)
        holder = descendants(self.first)[-1]
        between = os.fork()
        if between == 0:
            self.program = _guarded(lambda: enter(self.order, holder, tell))
            return
        os.close(tell)
        said = os.read(listen, 32)
        os.close(listen)
        os.waitpid(between, 0)
        if said:
            self.first = int(said)


def keep(order: dict[str, Any], owner: int) -> int | stay.Program:
    """The whole life of one sandbox: the exit status of its program, as a shell would say it. In the process that is to be the
    program it returns early, with what that does. `owner`: a descriptor of the runner's process."""
    for fd in order["kept"]:
        os.set_inheritable(fd, False)
    hold = order["kept"][0]
    check(adopt_orphans(), "becoming a reaper")
    if _gone(owner):
        _tidy(order, owner_gone=True)
        return 1
    if order["scratch"]:
        os.mkdir(order["scratch"], 0o700)
    kept = _Kept(order, owner)
    kept.start()
    if kept.program is not None:
        return kept.program
    first = kept.first
    # Held open, so that the kernel does not forget the folder that the program's rules name (see `become`).
    os.open(f"/proc/{first}", os.O_PATH | os.O_CLOEXEC)
    program = os.pidfd_open(first)
    for fd in order["handed"]:
        os.close(fd)  # its end of the channel above all: the owner notices by it that the program is gone
    poll = select.poll()
    for fd in (owner, hold, program):
        poll.register(fd, select.POLLIN)
    # A namespace's first process buries the orphans in it; without one they come here while the program still runs.
    buries = bool(order["scratch"])
    status = None
    while not poll.poll(1000 if buries else None):
        status, _ = _bury(first, status)
    status = end(first, order["uid"] if order["kill_user"] else None, status)
    _tidy(order, owner_gone=_gone(owner))
    code = os.waitstatus_to_exitcode(status)
    code = code if code >= 0 else 128 - code
    with contextlib.suppress(OSError):
        os.write(hold, b"%d" % code)
    return code


def _gone(process: int) -> bool:
    poll = select.poll()
    poll.register(process, select.POLLIN)
    return bool(poll.poll(0))


def main(order_fd: int, fds: list[int], owner: int) -> int | stay.Program:
    """Reads the order, which is JSON (see `launch.Order`), gives its descriptors the numbers that it knows them by, and keeps
    what it orders; see `keep`."""
    try:
        with os.fdopen(order_fd, "rb") as file:
            order = json.load(file)
        for number, fd in enumerate(fds, order["first_fd"]):
            os.dup2(fd, number)
            os.close(fd)
        return keep(order, owner)
    except OSError as error:
        os.write(2, f"stitchweb-keeper: {error.strerror or error}\n".encode())
        return 1
