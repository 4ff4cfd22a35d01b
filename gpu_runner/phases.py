"""The order of one process' hands at a device: times in which all of them may compute, and times in which one after another
measures.

Whoever shares the device comes in with all who wait for it, and gives it up soon after somebody wants it alone, between two
requests (`Phases.gives_way`). Whoever measures comes in by the order of asking; after a while those who share are let in again.
So a device is handed over a few times a minute, however many ask, and nobody waits for ever.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["alone", "beside", "long"]  # `long`: beside others, in one request that nobody can interrupt
# How long a time of each kind lasts at most, once the other kind waits, until the others' begins.
BESIDE_S, ALONE_S = 3.0, 12.0
LOOK_S = 0.2  # how often a waiting one asks whether it still wants


@dataclass
class Phases:
    """One device's. `clock` in seconds. Thread-safe."""

    beside_s: float = BESIDE_S
    alone_s: float = ALONE_S
    clock: Callable[[], float] = time.monotonic
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _phase: Literal["alone", "beside"] = "beside"
    _since: float = 0.0
    _inside: list[Kind] = field(default_factory=list)
    _waiting: list[tuple[object, Kind]] = field(default_factory=list)  # in the order of asking

    @contextmanager
    def turn(self, kind: Kind, rest: Callable[[], None]) -> Iterator[None]:
        """Inside, the device is ours as `kind` says, as far as this process goes. `rest` is called again and again while it is
        waited for, and may raise."""
        self._enter(kind, rest)
        try:
            yield
        finally:
            with self._changed:
                self._inside.remove(kind)
                self._changed.notify_all()

    def gives_way(self) -> bool:
        """Whether one that shares the device should leave it, and ask again: somebody wants it alone, and would get it."""
        with self._changed:
            return self._closed()

    def _enter(self, kind: Kind, rest: Callable[[], None]) -> None:
        me = object(), kind
        with self._changed:
            self._waiting.append(me)
        try:
            while not self._entered(me):
                rest()  # without the lock: it talks to whoever listens
        finally:
            with self._changed:
                self._waiting.remove(me)
                self._changed.notify_all()

    def _entered(self, me: tuple[object, Kind]) -> bool:
        """Whether `me` came in, now or after a moment."""
        with self._changed:
            if not self._may(me):
                self._changed.wait(LOOK_S)
                if not self._may(me):
                    return False
            self._inside.append(me[1])
            return True

    def _may(self, me: tuple[object, Kind]) -> bool:
        self._settle()
        if me[1] == "alone":
            first = next(one for one in self._waiting if one[1] == "alone")
            return self._phase == "alone" and not self._inside and first is me
        # One that cannot be interrupted only joins where nobody who measures has waited his time.
        return self._phase == "beside" and (not self._due() if me[1] == "long" else not self._closed())

    def _settle(self) -> None:
        """Who is to be let in, now that nobody is inside or the time of those who are is over."""
        if self._inside:
            return
        measuring, sharing = self._wanted("alone"), self._wanted("beside", "long")
        if self._phase == "beside" and measuring and (not sharing or self._due()):
            self._turn_to("alone")
        elif self._phase == "alone" and sharing and (not measuring or self.clock() - self._since >= self.alone_s):
            self._turn_to("beside")

    def _turn_to(self, phase: Literal["alone", "beside"]) -> None:
        self._phase, self._since = phase, self.clock()
        self._changed.notify_all()

    def _wanted(self, *kinds: Kind) -> bool:
        return any(what in kinds for _, what in self._waiting)

    def _due(self) -> bool:
        """Whether the time of those who share is over: somebody wants to measure, and they have had theirs."""
        return self._phase == "beside" and self._wanted("alone") and self.clock() - self._since >= self.beside_s

    def _closed(self) -> bool:
        """Due, and it would help: as long as one inside cannot be interrupted, the others lose nothing by going on."""
        return self._due() and "long" not in self._inside
