"""Keeps one sandbox: forks the process that becomes it, and ends and buries all of it when it ends, when the owner says so, or
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
import sys
import time
from typing import Any

from .become import become, check, drop_to

_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


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


def keep(order: dict[str, Any]) -> int:
    """The whole life of one sandbox; the exit status of its program, as a shell would say it."""
    for fd in order["kept"]:
        os.set_inheritable(fd, False)
    check(_libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "becoming a reaper")
    try:
        owner = os.pidfd_open(order["owner"])
    except ProcessLookupError:
        owner = -1
    if owner < 0 or os.getppid() != order["owner"]:
        _tidy(order, owner_gone=True)
        return 1
    if order["scratch"]:
        os.mkdir(order["scratch"], 0o700)
    keeper = os.getpid()
    first = os.fork()
    if first == 0:
        become(order, keeper)
    # Held open, so that the kernel does not forget the folder that the program's rules name (see `become`).
    os.open(f"/proc/{first}", os.O_PATH | os.O_CLOEXEC)
    program = os.pidfd_open(first)
    for fd in order["handed"]:
        os.close(fd)  # its end of the channel above all: the owner notices by it that the program is gone
    poll = select.poll()
    for fd in (owner, order["kept"][0], program):
        poll.register(fd, select.POLLIN)
    # A namespace's first process buries the orphans in it; without one they come here while the program still runs.
    buries = bool(order["scratch"])
    status = None
    while not poll.poll(1000 if buries else None):
        status, _ = _bury(first, status)
    status = end(first, order["uid"] if order["kill_user"] else None, status)
    poll = select.poll()
    poll.register(owner, select.POLLIN)
    _tidy(order, owner_gone=bool(poll.poll(0)))
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def main(order_fd: int) -> None:
    """Reads the order, which is JSON: see `launch.Order`."""
    try:
        with os.fdopen(order_fd, "rb") as file:
            order = json.load(file)
        code = keep(order)
    except OSError as error:
        sys.exit(f"stitchweb-keeper: {error.strerror or error}")
    os._exit(code)
