"""The order at a device: who measures has it alone, who shares it comes in together, and nobody waits for ever."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from gpu_runner.phases import Kind, Phases


def nothing() -> None:
    return


class Crowd:
    """Eight programs at one device. One unit of time is `unit` seconds. What each of them had of it, and waited at most for a
    turn; whoever meets somebody who measures is a fault."""

    def __init__(self, phases: Phases, unit: float) -> None:
        self.phases, self.unit = phases, unit
        self.lock = threading.Lock()
        self.measuring = self.sharing = 0
        self.faults: list[str] = []
        self.alone_s = 0.0
        self.most = 0.0

    def alone(self, units: float) -> None:
        began = time.monotonic()
        with self.phases.turn("alone", nothing):
            self._waited(began)
            with self.lock:
                self.measuring += 1
                if self.measuring > 1 or self.sharing:
                    self.faults.append("somebody else was there")
            began = time.monotonic()
            time.sleep(units * self.unit)
            with self.lock:
                self.measuring -= 1
                self.alone_s += time.monotonic() - began

    def beside(self, requests: int, kind: Kind = "beside", units: float = 0.25) -> None:
        """Requests of `units` each, with room made between them."""
        left = requests
        while left:
            began = time.monotonic()
            with self.phases.turn(kind, nothing):
                self._waited(began)
                with self.lock:
                    self.sharing += 1
                    if self.measuring:
                        self.faults.append("somebody measured")
                while left:
                    time.sleep(units * self.unit)
                    left -= 1
                    if self.phases.gives_way():
                        break
                with self.lock:
                    self.sharing -= 1

    def _waited(self, began: float) -> None:
        with self.lock:
            self.most = max(self.most, time.monotonic() - began)

    def program(self) -> None:
        """As one is on a GPU, in seconds: analysed, two programs checked and timed, watched, compiled, timed in full."""
        self.beside(32)
        self.alone(1)
        for _ in range(2):
            self.beside(16)
            self.alone(3)
        self.beside(24)
        self.beside(1, "long", 10.0)
        self.alone(6)
        self.alone(10)
        self.alone(3)


def test_eight_programs_at_once_take_little_more_than_what_each_of_them_measures() -> None:
    unit = 0.01
    crowd = Crowd(Phases(beside_s=3 * unit, alone_s=12 * unit), unit)
    began = time.monotonic()
    with ThreadPoolExecutor(8) as pool:
        for program in [pool.submit(crowd.program) for _ in range(8)]:
            program.result()
    took = time.monotonic() - began
    assert crowd.faults == []
    # What they share would alone be 8 × 32 units, one after another; what they measure is 8 × 26.
    assert took < 1.6 * crowd.alone_s, (took, crowd.alone_s)
    assert crowd.most < 0.5 * took, "nobody starves"


def test_who_shares_comes_in_together_and_leaves_soon_after_somebody_wants_to_measure() -> None:
    phases = Phases(beside_s=0.2, alone_s=10.0)
    measured = threading.Event()

    def measure() -> None:
        with phases.turn("alone", nothing):
            measured.set()

    with phases.turn("beside", nothing):
        assert not phases.gives_way(), "nobody wants it"
        threading.Thread(target=measure, daemon=True).start()
        time.sleep(0.1)
        assert phases.gives_way(), "those who share have had it for longer than their time"
    assert measured.wait(5)


def test_those_who_share_are_given_their_time_once_those_who_measure_have_had_theirs() -> None:
    phases = Phases(beside_s=0.3, alone_s=0.0)
    order: list[str] = []

    def wants(kind: Kind, name: str) -> threading.Thread:
        def work() -> None:
            with phases.turn(kind, nothing):
                order.append(name)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        time.sleep(0.05)
        return thread

    with phases.turn("alone", nothing):
        threads = [wants("alone", "second"), wants("beside", "a"), wants("beside", "b"), wants("alone", "third")]
    for thread in threads:
        thread.join(5)
    assert sorted(order[:2]) == ["a", "b"]
    assert order[2:] == ["second", "third"]


def test_beside_one_that_cannot_be_interrupted_the_others_go_on_but_no_second_one_joins() -> None:
    phases = Phases(beside_s=0.0, alone_s=10.0)
    came: list[str] = []

    def wants(kind: Kind) -> threading.Thread:
        def work() -> None:
            with phases.turn(kind, nothing):
                came.append(kind)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        time.sleep(0.1)
        return thread

    with phases.turn("long", nothing):
        threads = [wants("alone"), wants("long"), wants("beside")]
        assert came == ["beside"]
        assert not phases.gives_way(), "whoever measures could not come in anyway"
    for thread in threads:
        thread.join(5)
    assert came == ["beside", "alone", "long"]


def test_who_gives_up_waiting_holds_up_nobody() -> None:
    phases = Phases()

    def stop() -> None:
        raise InterruptedError

    with phases.turn("alone", nothing), pytest.raises(InterruptedError), phases.turn("alone", stop):
        pass
    with phases.turn("beside", nothing), phases.turn("beside", nothing):
        pass
