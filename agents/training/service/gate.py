"""Who may use the machine when: many checks at once, one timing alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gpu_runner.hands import Cancelled

LOOK_S = 0.2


class Gate:
    """`shared` for what may run beside others, `alone` for what must not. Whoever waits to be alone goes first, so that checks
    without end keep no timing waiting. Both raise Cancelled where `cancelled()` turns true while they wait."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._alone = False
        self._waiting = 0

    @contextmanager
    def shared(self, cancelled: Callable[[], bool]) -> Iterator[None]:
        with self._changed:
            self._wait(lambda: not self._alone and not self._waiting, cancelled)
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    @contextmanager
    def alone(self, cancelled: Callable[[], bool]) -> Iterator[None]:
        with self._changed:
            self._waiting += 1
            try:
                self._wait(lambda: not self._alone and not self._inside, cancelled)
                self._alone = True
            finally:
                self._waiting -= 1
                self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._alone = False
                self._changed.notify_all()

    def _wait(self, free: Callable[[], bool], cancelled: Callable[[], bool]) -> None:
        while not self._changed.wait_for(free, timeout=LOOK_S):
            if cancelled():
                raise Cancelled
