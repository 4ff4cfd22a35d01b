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


class Pool:
    """Holds at most `size` waiting sandboxes. Thread-safe."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._ready: list[Sandbox] = []
        self._changed = threading.Condition()
        self._filling = 0
        self._closed = False

    def warm(self, limits: Limits | None = None, devices: tuple[str, ...] = (), count: int | None = None) -> None:
        """Starts preparing sandboxes until `count` (at most the pool's size) wait for jobs of these limits; returns at once."""
        limits = limits or Limits()
        wanted = min(self._size, count if count is not None else self._size)
        with self._changed:
            alike = [sandbox for sandbox in self._ready if _fits(sandbox, limits, devices)]
            strange = [sandbox for sandbox in self._ready if sandbox not in alike]
            missing = wanted - len(alike) - self._filling
            if missing <= 0 or self._closed:
                return
            room = self._size - len(alike) - self._filling
            self._ready = alike + strange[: max(0, room - missing)]
            dropped = strange[max(0, room - missing) :]
            self._filling += missing
        for sandbox in dropped:
            sandbox.close()
        threading.Thread(target=self._fill, args=(limits, devices, missing), name="stitchweb-pool", daemon=True).start()

    def take(self, spec: SandboxSpec) -> Sandbox | None:
        """A waiting sandbox with exactly these limits and devices, or None. It is the caller's from now on."""
        while True:
            with self._changed:
                found = next((waiting for waiting in self._ready if _fits(waiting, spec.limits, spec.devices)), None)
                if found is None:
                    return None
                self._ready.remove(found)
            if found.alive:
                return found
            found.close()

    def settle(self, timeout: float = 60.0) -> None:
        """Waits until no sandbox is being prepared."""
        with self._changed:
            self._changed.wait_for(lambda: self._filling == 0, timeout)

    def close(self) -> None:
        """Ends all that wait, and lets none follow."""
        with self._changed:
            self._closed = True
            waiting, self._ready = self._ready, []
        for sandbox in waiting:
            sandbox.close()

    def _fill(self, limits: Limits, devices: tuple[str, ...], count: int) -> None:
        for _ in range(count):
            sandbox = None
            # Whoever needs one starts its own and is told the reason.
            with contextlib.suppress(HandsError, OSError):
                sandbox = Sandbox(config(), limits, config().threads, devices, warm=True)
            with self._changed:
                self._filling -= 1
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
