"""Sandboxes that have imported torch and wait for a role: a job need not pay that second.

Each is used once. Nothing refills the pool by itself, since an import beside a measurement would spoil it: the hands call
`warm` where there is time, and `settle` before they time anything.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from functools import lru_cache

from gpu_runner.config import config
from gpu_runner.contracts import Limits
from gpu_runner.hands import HandsError
from gpu_runner.sandbox.process import Sandbox
from gpu_runner.sandbox.spec import SandboxSpec

_PREPARED_S = 60.0  # beyond it a machine is in such trouble that starting another makes no difference


class Pool:
    """Holds at most `size` waiting sandboxes. Thread-safe."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._ready: list[Sandbox] = []
        self._changed = threading.Condition()
        self._filling: list[tuple[Limits, tuple[str, ...]]] = []  # what is being prepared for
        self._waiting = 0  # how many wait for one of those
        self._closed = False

    def warm(self, limits: Limits | None = None, devices: tuple[str, ...] = (), count: int | None = None) -> None:
        """Starts preparing sandboxes until `count` (at most the pool's size) wait for jobs of these limits; returns at once."""
        limits = limits or Limits()
        wanted = min(self._size, count if count is not None else self._size)
        with self._changed:
            alike = [sandbox for sandbox in self._ready if _fits(sandbox, limits, devices)]
            strange = [sandbox for sandbox in self._ready if sandbox not in alike]
            missing = wanted - len(alike) - len(self._filling)
            if missing <= 0 or self._closed:
                return
            room = self._size - len(alike) - len(self._filling)
            self._ready = alike + strange[: max(0, room - missing)]
            dropped = strange[max(0, room - missing) :]
            self._filling += [(limits, devices)] * missing
        for sandbox in dropped:
            sandbox.close()
        for _ in range(missing):
            threading.Thread(target=self._fill, args=(limits, devices), name="stitchweb-pool", daemon=True).start()

    def take(self, spec: SandboxSpec) -> Sandbox | None:
        """A waiting sandbox with exactly these limits and devices, or None. It is the caller's from now on.

        One that is being prepared is waited for: it began earlier than any that the caller could start.
        """
        while True:
            with self._changed:
                found = self._ready_for(spec)
                if found is None and self._filling.count((spec.limits, spec.devices)) > self._waiting:
                    self._waiting += 1
                    self._changed.wait_for(
                        lambda: self._ready_for(spec) or (spec.limits, spec.devices) not in self._filling, _PREPARED_S
                    )
                    self._waiting -= 1
                    found = self._ready_for(spec)
                if found is None:
                    return None
                self._ready.remove(found)
            if found.alive:
                return found
            found.close()

    def _ready_for(self, spec: SandboxSpec) -> Sandbox | None:
        return next((waiting for waiting in self._ready if _fits(waiting, spec.limits, spec.devices)), None)

    def settle(self, timeout: float = 60.0) -> None:
        """Waits until no sandbox is being prepared."""
        with self._changed:
            self._changed.wait_for(lambda: not self._filling, timeout)

    def close(self) -> None:
        """Ends all that wait, and lets none follow."""
        self._closed = True
        self.drain()

    def drain(self) -> None:
        """Ends all that wait."""
        with self._changed:
            waiting, self._ready = self._ready, []
        for sandbox in waiting:
            sandbox.close()

    def _fill(self, limits: Limits, devices: tuple[str, ...]) -> None:
        sandbox = None
        # Whoever needs one starts its own and is told the reason.
        with contextlib.suppress(HandsError, OSError):
            sandbox = Sandbox(config(), limits, config().threads, devices, warm=True)
        with self._changed:
            self._filling.remove((limits, devices))
            keep = sandbox is not None and not self._closed
            if sandbox is not None and keep:
                self._ready.append(sandbox)
            self._changed.notify_all()
        if sandbox is not None and not keep:
            sandbox.close()


def _fits(sandbox: Sandbox, limits: Limits, devices: tuple[str, ...]) -> bool:
    return sandbox.limits == limits and sandbox.devices == devices


@lru_cache(maxsize=1)
def shared() -> Pool:
    """The pool of this process."""
    pool = Pool(config().pool)
    atexit.register(pool.close)
    return pool


# The sandboxes of a parent process are not its forked child's to talk to.
os.register_at_fork(after_in_child=shared.cache_clear)
