"""Keeps a handful of processes: starts them, prefixes what they say, starts again what dies, ends all of them together."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

CHILD = Path(__file__).with_name("child.py")
YOUNG_S = 5.0  # a process that dies at this age or younger cannot be started, as far as we know
STOP_S = 8.0
MAX_PAUSE_S = 30.0


class CannotStart(Exception):
    """A process died as soon as it was started. The message holds its last words."""


@dataclass
class Child:
    """One process as it is meant to be. `env` None: this process's own. `grace_s`: how long it may take to stop."""

    name: str
    command: Sequence[str]
    env: Mapping[str, str] | None = None
    grace_s: float = STOP_S
    process: subprocess.Popen[str] | None = None
    started: float = 0.0
    restarts: int = 0
    again_at: float = 0.0
    last_words: deque[str] = field(default_factory=lambda: deque(maxlen=20))


class Supervisor:
    """Start from the main thread only: children die with the thread that started them."""

    def __init__(self, say: Callable[[str, str], None], folder: Path) -> None:
        self._say = say  # (name, line)
        self._folder = folder  # the children's working directory
        self.children: list[Child] = []
        self._stopping = threading.Event()

    def start(self, child: Child) -> None:
        """Start a process and keep it from now on."""
        self.children.append(child)
        self._spawn(child)

    def request_stop(self, *_: object) -> None:
        """Ends `run`; fit for a signal handler."""
        self._stopping.set()

    @property
    def stopping(self) -> bool:
        return self._stopping.is_set()

    def run(self) -> None:
        """Watch until `request_stop`. CannotStart when a process dies young on its first try."""
        while not self._stopping.wait(0.2):
            self.check()

    def check(self) -> None:
        """One look at all children: those that died come back after a pause that grows."""
        now = time.monotonic()
        for child in self.children:
            process = child.process
            if process is not None and process.poll() is not None:
                age = now - child.started
                # Somebody else's SIGKILL (the kernel's, when memory runs out) says nothing about whether it can start.
                if age < YOUNG_S and child.restarts == 0 and process.returncode != -signal.SIGKILL:
                    raise CannotStart(
                        f"{child.name} ended at once with status {process.returncode}. Its last words:\n  "
                        + "\n  ".join(child.last_words or ["(none)"])
                    )
                child.restarts = 1 if age > 60 else child.restarts + 1
                pause = min(MAX_PAUSE_S, 0.2 * 2**child.restarts)
                self._say(child.name, f"ended with status {process.returncode}; starting it again in {pause:.1f} s")
                child.process, child.again_at = None, now + pause
            elif process is None and now >= child.again_at:
                self._spawn(child)

    def stop(self) -> None:
        """End all, the last started first and all at the same time; who does not go in time is killed, with its group."""
        self._stopping.set()
        alive = [child for child in reversed(self.children) if child.process is not None and child.process.poll() is None]
        for child in alive:
            self._signal(child, signal.SIGTERM, group=False)
        now = time.monotonic()
        for child in alive:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.process.wait(max(0.0, now + child.grace_s - time.monotonic()))  # type: ignore[union-attr]
        for child in self.children:
            # The group too: what a process started and left behind must not outlive the site.
            self._signal(child, signal.SIGKILL, group=True)
        for child in alive:
            child.process.wait()  # type: ignore[union-attr]

    def _spawn(self, child: Child) -> None:
        child.started = time.monotonic()
        child.process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(CHILD), str(os.getpid()), "--", *child.command],
            env=dict(child.env) if child.env is not None else None,
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,  # Ctrl-C reaches the supervisor alone, which then stops all in order
        )
        threading.Thread(target=self._listen, args=(child, child.process), daemon=True, name=child.name).start()

    def _listen(self, child: Child, process: subprocess.Popen[str]) -> None:
        if process.stdout is None:
            return
        for line in process.stdout:
            child.last_words.append(line.rstrip())
            self._say(child.name, line.rstrip())

    @staticmethod
    def _signal(child: Child, number: signal.Signals, group: bool) -> None:
        if child.process is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if group:
                os.killpg(child.process.pid, number)
            elif child.process.poll() is None:
                child.process.send_signal(number)
