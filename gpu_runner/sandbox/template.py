"""The runner's side of the processes that its sandboxes are forked from: one without torch, and some that have imported it.

Forks of one process have the addresses of libraries, the guards of stacks and Python's seed for the hashes of text in common. A
reference and its candidate must not (the order of a set would be the same in both, which it is nowhere else), nor a program and
its judge, nor a candidate and the second process that shows whether it is always right.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import IO, Literal

from gpu_runner.config import config
from gpu_runner.sandbox import recipe
from gpu_runner.sandbox.errors import SandboxUnavailable

Kind = Literal["plain", "reference", "candidate", "again", "judge"]  # `again`: of every second candidate
WITH_TORCH: tuple[Kind, ...] = ("reference", "candidate", "judge", "again")
_FOLDER = str(Path(__file__).parent)
_CODE = "import os, sys; sys.path.append(os.getcwd()); from keeper.template import run; run(*map(int, sys.argv[1:]))"
_START_S = 90.0  # a cold import of torch from a slow disk
_STATUS_BYTES = 16


class Keeper:
    """The process between this one and a sandbox, a fork of the template: not a child of ours, so it is watched through a
    descriptor. `hold`: the socket that it ends everything for once we say nothing more, and that it says its status through."""

    def __init__(self, pid: int, process: int, hold: socket.socket) -> None:
        self.pid = pid
        self._process = process
        self._hold = hold
        self._status: int | None = None

    def stop(self) -> None:
        """Has everything ended; returns at once. From any thread, any number of times."""
        with contextlib.suppress(OSError):
            # Not closed: a process forked by this one may hold a copy.
            self._hold.shutdown(socket.SHUT_WR)

    def wait(self, timeout: float) -> int | None:
        """The sandbox's exit status, as a shell would say it, or None while it has not ended after `timeout` seconds."""
        if self._status is None and self._process >= 0:
            poll = select.poll()
            poll.register(self._process, select.POLLIN)
            if poll.poll(1000 * timeout):
                said = b""
                with contextlib.suppress(OSError):
                    said = self._hold.recv(_STATUS_BYTES, socket.MSG_DONTWAIT)
                self._status = int(said) if said.isdigit() else 128 + 9  # a keeper that says nothing was killed
        return self._status

    def close(self) -> None:
        """Gives back the descriptors; after `wait`."""
        self._hold.close()
        if self._process >= 0:
            os.close(self._process)
            self._process = -1


class Template:
    """A process that has imported what its sandboxes need: started by its first use, and again once it ended. Thread-safe."""

    def __init__(self, torch: bool) -> None:
        self._torch = torch
        self._lock = threading.Lock()
        self._popen: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._said: IO[bytes] | None = None  # what it printed: nothing, unless something is wrong

    def warm(self) -> None:
        """Starts it and its imports where it has not been; returns at once."""
        with self._lock:
            self._started()

    def fork(self, order: int, output: int, fds: Sequence[int], hold: socket.socket) -> Keeper:
        """A keeper with these descriptors. Raises SandboxUnavailable where no template can be started."""
        with self._lock:
            for last in (False, True):
                channel = self._started()
                try:
                    socket.send_fds(channel, [b"k"], [order, output, *fds])
                    break
                except OSError as error:  # it was ended since; what was never sent may be sent again
                    if last:
                        raise SandboxUnavailable(self._ended(str(error))) from None
            try:
                answer, processes, _, _ = socket.recv_fds(channel, 256, 1, socket.MSG_CMSG_CLOEXEC)
            except OSError as error:
                answer, processes = str(error).encode(), []
            except BaseException:
                self._stop()  # its answer would be taken for the next one's
                raise
            if not processes:
                raise SandboxUnavailable(self._ended(answer.decode(errors="replace")))
            return Keeper(int(answer), processes[0], hold)

    def close(self) -> None:
        """Ends it. Sandboxes that it has forked live on."""
        with self._lock:
            self._stop()

    def _started(self) -> socket.socket:
        if self._channel is not None and self._popen is not None and self._popen.poll() is None:
            return self._channel
        self._stop()
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed where it is stopped
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            ours.settimeout(_START_S)
            self._popen = subprocess.Popen(
                [sys.executable, "-I", "-u", "-c", _CODE, *map(str, (theirs.fileno(), os.getpid(), int(self._torch)))],
                env=recipe.environment(config().threads),
                cwd=_FOLDER,
                stdin=subprocess.DEVNULL,
                stdout=self._said,
                stderr=self._said,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._channel = ours
        return ours

    def _stop(self) -> None:
        if self._channel is not None:
            self._channel.close()
        if self._popen is not None:
            self._popen.kill()
            self._popen.wait()
        if self._said is not None:
            self._said.close()
        self._channel = self._popen = self._said = None

    def _ended(self, answer: str) -> str:
        """Ends it. Why it could not be used."""
        printed = b""
        if self._said is not None:
            self._said.seek(0)
            printed = self._said.read(4096)
        self._stop()
        said = " ".join(f"{answer} {printed.decode(errors='replace')}".split())[-400:]
        why = f"The process that sandboxes are forked from could not be used ({said or 'it said nothing'})."
        return f"{why} Run `python -m gpu_runner doctor`."


@lru_cache(maxsize=1)
def forkable() -> bool:
    """Whether a program may be a fork of a process that runs outside of its namespaces.

    `/proc/self/exe` of a fork leads to the machine's own Python, whose owner may change its mode and dates by that way.
    Programs of a root runner never are its owner, nor are those of a runner whose Python is another user's.
    """
    return os.getuid() == 0 or os.stat(sys.executable).st_uid != os.getuid()


_making = threading.Lock()
_made: dict[Kind, Template] = {}


def shared(kind: Kind) -> Template:
    """This process's template of a kind."""
    with _making:
        if kind not in _made:
            _made[kind] = Template(kind in WITH_TORCH)
            atexit.register(_made[kind].close)
        return _made[kind]


def warm() -> None:
    """Has all that will be forked import torch while there is time; returns at once."""
    for kind in WITH_TORCH if forkable() else ():
        shared(kind).warm()


def _forget() -> None:
    """In a forked process: the templates of its parent are not its own, neither to use (one socket would carry two
    conversations) nor to end."""
    global _making
    _making = threading.Lock()
    for template in _made.values():
        atexit.unregister(template.close)
    _made.clear()


os.register_at_fork(after_in_child=_forget)
