"""The process that every sandbox of a runner is forked from: started once, it has imported what its sandboxes need and waits.

An import of torch is a second and a half; a fork is milliseconds. Nothing of any job is ever read in here, so that a fork
brings nothing of another job along: an order's descriptors are passed on to the forked keeper, which reads it.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import os
import select
import socket
import sys
import time

from . import main as keeper
from .become import check
from .stay import Program, close_all_but

ABOVE = 100  # where descriptors wait that must not be in the way of an order's own numbers
MOST_FDS = 64
_FORK_FAILED = b"!"
_ORPHANS_S = 5.0  # how long those of a killed keeper are waited for


def out_of_the_way(fd: int) -> int:
    """A copy of a descriptor at a high number; the given one is closed."""
    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, ABOVE)
    os.close(fd)
    return moved


def import_torch() -> None:
    """What a sandbox would import otherwise. Where it cannot be, a sandbox meets the reason itself."""
    gc.disable()  # what is imported stays, so the collector would look through it for nothing
    with contextlib.suppress(Exception):
        import torch  # noqa: F401
    gc.enable()
    gc.collect()
    gc.freeze()  # not touched by a fork's collections, so its pages stay shared


def serve(control: int, owner: int, torch: bool) -> Program:
    """Forks a keeper for each message until the owner is gone. In a process that is to be a program it returns what that does.

    A message is one byte with an order's descriptors; its answer is the keeper's pid with a descriptor of that process.
    """
    os.chdir("/")
    control = out_of_the_way(control)
    try:
        watched = out_of_the_way(os.pidfd_open(owner))
    except ProcessLookupError:
        os._exit(0)
    if os.getppid() != owner:
        os._exit(0)
    if torch:
        import_torch()
    channel = socket.socket(fileno=control)
    poll = select.poll()
    for fd in (control, watched):
        poll.register(fd, select.POLLIN)
    # What a keeper that is killed leaves comes here: a namespace ends only when all of its dead are buried.
    check(keeper.adopt_orphans(), "becoming a reaper")
    keepers: set[int] = set()
    burying_until = 0.0
    while True:
        ready = {fd for fd, _ in poll.poll(50 if time.monotonic() < burying_until else None)}
        if watched in ready:
            os._exit(0)  # the keepers see it too
        for fd in ready & keepers:
            poll.unregister(fd)
            os.close(fd)
            keepers.remove(fd)
        if _bury():
            burying_until = time.monotonic() + _ORPHANS_S
        if control not in ready:
            continue
        message, fds, _, _ = socket.recv_fds(channel, 16, MOST_FDS, socket.MSG_CMSG_CLOEXEC)
        if not message:
            os._exit(0)
        try:
            pid = os.fork()
        except OSError as error:
            channel.send(_FORK_FAILED + (error.strerror or "").encode())
            pid = -1
        if pid == 0:
            return _keeper(fds, watched)
        for fd in fds:
            os.close(fd)
        if pid > 0:
            process = out_of_the_way(os.pidfd_open(pid))
            keepers.add(process)
            poll.register(process, select.POLLIN)
            socket.send_fds(channel, [b"%d" % pid], [process])


def _bury() -> bool:
    """Buries the dead children; whether one of them was killed, and may have left others."""
    killed = False
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            killed |= os.WIFSIGNALED(found[1])
    return killed


def _keeper(fds: list[int], owner: int) -> Program:
    """The whole life of a keeper, in its fork. Returns in the program that it keeps."""
    os.setsid()
    high = [out_of_the_way(fd) for fd in fds]
    close_all_but({0, 1, 2, owner, *high})
    order, output, *handed = high
    # An open file of its own: what a program leaves on it, as locks and flags, the next one must not find.
    os.dup2(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    ended = keeper.main(order, handed, owner)
    if not isinstance(ended, int):
        return ended
    os._exit(ended)


def run(control: int, owner: int, torch: bool) -> None:
    """`serve`, and then the program from here, where nothing of a keeper is left on the stack."""
    program = serve(control, owner, torch)
    try:
        program()
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)
