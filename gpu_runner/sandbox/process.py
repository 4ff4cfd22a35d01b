"""A running, single-use sandboxed process: asked questions, bounded, and gone without a trace afterwards."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from gpu_runner.config import Config, config
from gpu_runner.contracts import Limits
from gpu_runner.hands import Cancelled
from gpu_runner.sandbox import watch
from gpu_runner.sandbox.channel import Ended, Late
from gpu_runner.sandbox.errors import (
    ChildCrashed,
    ChildError,
    ChildMemory,
    ChildProtocol,
    ChildTimedOut,
    SandboxError,
    SandboxUnavailable,
)
from gpu_runner.sandbox.launch import launch, why_not_started
from gpu_runner.sandbox.memory import Memory
from gpu_runner.sandbox.spec import TORCH_ROLES, SandboxSpec, Tool
from gpu_runner.sandbox.template import Kind

_START_S = 90.0  # a cold import of torch from a slow disk
_EMPTY_S = 5.0
_MAX_PROGRESS = 20_000
_TEXT = 16_000
_candidates = itertools.count(1)


def _kind(spec: SandboxSpec) -> Kind:
    """What a process with this role is forked from."""
    if spec.tool is not None:
        return "plain"
    match spec.role:
        case "reference" | "judge":
            return spec.role
        case "candidate":
            return "candidate" if next(_candidates) % 2 else "again"
        case _:
            return "plain"


class Sandbox:
    """Made by `start`. Not thread-safe, except for `kill`, which any thread may call at any time."""

    def __init__(
        self,
        settings: Config,
        limits: Limits,
        threads: int,
        devices: tuple[str, ...],
        tool: Tool | None = None,
        kind: Kind = "plain",
    ) -> None:
        """Starts a process without a role; `start` is what callers want. `kind`: of what it is forked from."""
        self.limits = limits
        self.ended_reason = ""
        self._settings = settings
        self._lock = threading.Lock()
        self._closed = False
        self._error: SandboxError | None = None
        self._memory_killed = False
        self._launched = launch(settings, limits, threads, devices, tool, kind)
        try:
            self._watcher = watch.Watcher(self._launched, limits, self._kill_for)
        except BaseException:
            self._launched.keeper.stop()
            self._launched.keeper.wait(_EMPTY_S)
            self._launched.give_back(_EMPTY_S)
            raise
        try:
            message = self._launched.channel.receive(time.monotonic() + _START_S)
            if message.kind != "ready":
                raise Ended
        except (Ended, Late, ChildProtocol):
            self.close()
            raise SandboxUnavailable(why_not_started(self.output), self.output) from None
        except BaseException:
            self.close()
            raise

    @classmethod
    def start(cls, spec: SandboxSpec) -> Sandbox:
        """A process that has its files and has loaded its role.

        Raises SandboxUnavailable when this machine has no boundary to offer, ChildError or a sibling when a role does not load.
        """
        from gpu_runner.sandbox import selftest  # here, since it is made of a sandbox itself

        selftest.require()
        settings = config()
        sandbox = cls(settings, spec.limits, spec.threads or settings.threads, spec.devices, spec.tool, _kind(spec))
        try:
            sandbox.assign(spec)
        except BaseException:
            sandbox.close()
            raise
        return sandbox

    def assign(self, spec: SandboxSpec) -> None:
        """Gives the process its role, once. Its wall clock starts here."""
        contents = {path: data.encode() if isinstance(data, str) else data for path, data in spec.files.items()}
        payload = {
            "role": spec.role,
            "folder": self._launched.folder,
            "files": [{"path": path, "size": len(data)} for path, data in contents.items()],
            "packages": [str(path) for path in self._settings.packages],
            "threads": spec.threads or self._settings.threads,
            "torch": spec.role in TORCH_ROLES,
        }
        self._watcher.deadline = time.monotonic() + self.limits.wall_s
        with Memory.of(b"".join(contents.values()), "stitchweb-files") as files:
            os.lseek(files.fd, 0, os.SEEK_SET)
            self.request("role", payload, [files.fd, self._launched.answer.fd])

    @property
    def output(self) -> str:
        """What it printed so far, head and tail; untrusted text."""
        return self._watcher.capture.text

    @property
    def memory_kills(self) -> int:
        """How many of its processes the kernel has killed for memory; 0 where no group counts them."""
        return self._launched.group.memory_kills()

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._launched.keeper.wait(0) is None

    @property
    def pid(self) -> int:
        """Its keeper, as the host sees it: everything of the sandbox descends from there."""
        return self._launched.keeper.pid

    def request(
        self,
        kind: str,
        payload: dict[str, Any],
        fds: Sequence[int] = (),
        timeout: float | None = None,
        on_progress: Callable[[dict[str, Any]], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> dict[str, Any]:
        """Sends one message and waits for its answer, at most `timeout` seconds or until the wall clock of the limits.

        The answer is untrusted JSON. ChildError leaves the process usable; every other exception ends it, also one that
        `on_progress` raises. Raises Cancelled soon after `cancelled()` became true.
        """
        if self._error is not None:
            raise self._error
        deadline = self._watcher.deadline
        if timeout is not None:
            deadline = min(deadline, time.monotonic() + timeout)

        def stop() -> None:
            if cancelled is not None and cancelled():
                raise Cancelled("The job was cancelled.")

        try:
            stop()  # here too: a job of many quick questions never waits long enough to be asked while it waits
            self._launched.channel.send(kind, payload, fds)
            for _ in range(_MAX_PROGRESS):
                message = self._launched.channel.receive(deadline, stop)
                if message.kind == "done":
                    return message.payload
                if message.kind == "error":
                    raise self._reported(message.payload)
                if message.kind != "progress":
                    raise ChildProtocol("The program said that it was ready a second time, and was ended.")
                if on_progress is not None:
                    on_progress(message.payload)
            raise ChildProtocol(f"The program sent more than {_MAX_PROGRESS} progress messages, and was ended.")
        except ChildError:
            raise
        except Ended:
            raise self._ended() from None
        except Late:
            waited = self.limits.wall_s if timeout is None else min(timeout, self.limits.wall_s)
            self._kill_for(ChildTimedOut(f"The program did not finish within {waited:.3g} s, and was ended."))
            raise self._ended() from None
        except ChildProtocol as error:
            self._kill_for(error)
            raise self._ended() from None
        except BaseException:
            self.close()
            raise

    def kill(self) -> None:
        """Ends the process and everything it started. From any thread, any number of times; returns when all of it is gone.

        A request that waits in another thread raises. What the process held is still to be given back by `close`.
        """
        self._kill_for(ChildCrashed("The job was ended."))
        with self._lock:
            if not self._closed:
                self._launched.keeper.wait(_EMPTY_S)

    @property
    def closed(self) -> bool:
        """Whether it has been given back: nothing can be asked of it any more."""
        return self._closed

    def close(self) -> None:
        """Ends it as `kill` does and gives back everything it held. Not while another thread waits in `request`."""
        self._launched.keeper.stop()
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._launched.keeper.wait(_EMPTY_S)
            self._watcher.stop()
            self._memory_killed = self._launched.group.memory_kills() > 0
            self._launched.give_back(_EMPTY_S)

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _kill_for(self, error: SandboxError) -> None:
        """Ends the process and remembers the first reason. The watching thread calls this too."""
        if self._error is None:
            self._error = error
            self.ended_reason = error.sentence
        self._launched.keeper.stop()

    def _ended(self) -> SandboxError:
        """The exception for a process that is gone or must go."""
        if self._error is None:
            # Let a dying process finish dying: killed by us it would hide its own signal.
            self._launched.keeper.wait(1.0)
        self.close()
        if self._error is None:
            self._error = self._autopsy()
            self.ended_reason = self._error.sentence
        self._error.output = self.output
        return self._error

    def _autopsy(self) -> SandboxError:
        if self._memory_killed:
            return ChildMemory(f"The program used more than its {self.limits.memory_mib} MiB of memory, and was ended.")
        code = self._launched.keeper.wait(0)
        number = code - 128 if code is not None and code > 128 else None
        if number is not None:
            try:
                name = signal.Signals(number).name
            except ValueError:
                name = f"signal {number}"
            if number == signal.SIGXCPU:
                return ChildTimedOut("The program used up its processor time, and was ended.")
            return ChildCrashed(f"The program crashed: it was ended by {name}.", signal=number)
        return ChildCrashed(f"The program ended by itself (exit status {code}) without an answer.", exit_code=code)

    def _reported(self, payload: dict[str, Any]) -> ChildError:
        kind, message, trace = (str(payload.get(key, ""))[:_TEXT] for key in ("type", "message", "traceback"))
        return ChildError(kind or "Error", message, trace, self.output)
