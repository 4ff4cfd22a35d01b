"""The queue for a device: measuring alone, computing beside others, and a bound on those who compile."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from contextlib import AbstractContextManager, ExitStack

import pytest

from gpu_runner import turns
from gpu_runner.contracts import Limits, Mode, Precision
from gpu_runner.hands import Cancelled
from gpu_runner.job import Job

pytestmark = pytest.mark.usefixtures("own_queue")


def job(cancelled: threading.Event | None = None, said: list[str] | None = None) -> Job:
    stop = cancelled.is_set if cancelled else lambda: False
    words = [] if said is None else said
    return Job("cpu", Limits(), Mode.EVAL, Precision.AS_REFERENCE, lambda p: words.append(str(p.payload["text"])), stop)


def passes(turn: AbstractContextManager[None]) -> threading.Event:
    """Set once the turn was had, in a thread of its own."""
    had = threading.Event()

    def work() -> None:
        with turn:
            had.set()

    threading.Thread(target=work, daemon=True).start()
    return had


def test_who_measures_has_the_device_alone_and_those_who_compute_share_it() -> None:
    with turns.beside(job()):
        assert passes(turns.beside(job())).wait(5)
        alone = passes(turns.alone(job()))
        assert not alone.wait(0.2)
    assert alone.wait(5)
    with turns.alone(job()):
        others = [passes(turns.beside(job())), passes(turns.alone(job()))]
        assert not any(other.wait(0.2) for other in others)
    assert all(other.wait(5) for other in others)


def test_those_who_share_the_device_cannot_keep_out_who_wants_it_alone() -> None:
    with ExitStack() as first:
        first.enter_context(turns.beside(job()))
        alone = passes(turns.alone(job()))
        time.sleep(0.1)
        late = passes(turns.beside(job()))
        assert not late.wait(0.2), "who comes later stands behind"
    assert alone.wait(5)
    assert late.wait(5)


def test_who_computes_for_long_makes_room_between_two_requests() -> None:
    with turns.beside(job()):
        turns.make_room()  # nobody wants it
        alone = passes(turns.alone(job()))
        assert not alone.wait(0.2)
        turns.make_room()
        assert alone.is_set()
    turns.make_room()  # one who holds nothing


def test_room_is_made_for_another_process() -> None:
    code = (
        "from pathlib import Path\nfrom gpu_runner import turns\nfrom tests.gpu_runner.test_turns import job\n"
        f"turns.locks = lambda: Path({str(turns.locks())!r})\n"
        "print('asks', flush=True)\nwith turns.alone(job()): print('had', flush=True)\n"
    )
    with turns.beside(job()), subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "asks\n"
        until = time.monotonic() + 20
        while other.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
            turns.make_room()
        assert other.stdout.read() == "had\n"


def test_what_is_done_is_said_again_after_waiting() -> None:
    said: list[str] = []
    mine = job(said=said)
    mine.stage("comparing")
    with ExitStack() as held:
        held.enter_context(turns.alone(job()))
        threading.Timer(0.5, held.pop_all().close).start()
        with turns.beside(mine):
            pass
    assert said == ["comparing", turns.WAITING, "comparing"]


def test_one_tool_watches_at_a_time() -> None:
    with turns.watching(job()):
        second = passes(turns.watching(job()))
        assert not second.wait(0.2)
    assert second.wait(5)


def test_waiting_is_said_costs_no_time_of_the_job_and_is_counted() -> None:
    said: list[str] = []
    mine = job(said=said)
    before = mine.left()
    with ExitStack() as held:
        held.enter_context(turns.alone(job()))
        threading.Timer(0.5, held.pop_all().close).start()
        with turns.clocked() as waits, turns.alone(mine):
            pass
    assert said == [turns.WAITING]
    assert sum(waits) >= 0.4
    assert before - mine.left() < 0.4


def test_a_cancelled_job_waits_no_longer() -> None:
    cancelled = threading.Event()
    with turns.alone(job()):
        threading.Timer(0.2, cancelled.set).start()
        with pytest.raises(Cancelled), turns.alone(job(cancelled)):
            pass
    with turns.alone(job()):
        pass


def test_a_core_in_four_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)))
    assert (turns.compilers(), turns.compile_threads(), turns.compile_threads(much=True)) == (4, 3, 8)
    with ExitStack() as places:
        for _ in range(3):
            places.enter_context(turns.compiler(job()))
        fourth = turns.compiler(job())
        places.enter_context(fourth)
        fifth = passes(turns.compiler(job()))
        assert not fifth.wait(0.2)
    assert fifth.wait(5)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    assert (turns.compilers(), turns.compile_threads()) == (1, 2)
