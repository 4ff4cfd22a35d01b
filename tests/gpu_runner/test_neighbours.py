"""Who had the CPUs while a call was measured: others count, the measured program never does."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gpu_runner.contracts import PROTOCOLS, CandidateFiles, Source, TimeTask
from gpu_runner.neighbours import Neighbours
from tests.gpu_runner.programs import REFERENCE

BURN = "import threading\ndef burn():\n    while True: pass\nthreading.Thread(target=burn).start()\nburn()"


@contextmanager
def burning() -> Iterator[int]:
    """A process with two threads that burn, below another one: a program as the hands see it."""
    code = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {BURN!r}])"
    process = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    try:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and not _below(process.pid):
            time.sleep(0.01)
        time.sleep(0.2)
        yield process.pid
    finally:
        os.killpg(process.pid, 9)
        process.wait()


HIDE = """
import ctypes
with open("/proc/self/stat") as file:
    start, end = map(int, file.read().rpartition(")")[2].split()[45:47])  # where the arguments lie
page = start & -4096
munmap = ctypes.CDLL(None).munmap
munmap.argtypes = (ctypes.c_size_t, ctypes.c_size_t)
munmap(page, end - page)
"""


CORES = len(os.sched_getaffinity(0))


@contextlib.contextmanager
def crowd(threads: int) -> Iterator[int]:
    """A process with so many children that burn."""
    burn = "[sys.executable, '-c', 'while True: pass']"
    code = f"import subprocess, sys\nfor _ in range({threads}): last = subprocess.Popen({burn})\nlast.wait()"
    process = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    try:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and len(_below(process.pid).split()) < threads:
            time.sleep(0.01)
        time.sleep(0.2)
        yield process.pid
    finally:
        os.killpg(process.pid, 9)
        process.wait()


def _below(pid: int) -> str:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return file.read()


@pytest.fixture
def neighbours() -> Iterator[Neighbours]:
    with contextlib.closing(Neighbours()) as made:
        yield made


def watched(neighbours: Neighbours, root: int, seconds: float = 0.3) -> float:
    neighbours.start(root)
    time.sleep(seconds)
    share = neighbours.share()
    assert share is not None
    return share


def test_a_busy_neighbour_is_seen_and_the_programs_own_children_are_not(neighbours: Neighbours) -> None:
    with burning() as pid, subprocess.Popen(["sleep", "60"]) as idle:
        as_neighbour, as_program = watched(neighbours, idle.pid), watched(neighbours, pid)
        idle.kill()
        # Whatever else runs here is in both; half a core is left for it, and for a machine that shares its cores.
        assert as_neighbour > as_program + 0.25


def test_a_neighbour_that_began_after_the_call_is_seen_and_one_that_ended_costs_nothing(neighbours: Neighbours) -> None:
    with subprocess.Popen(["sleep", "60"]) as idle:
        try:
            neighbours.start(idle.pid)
            with burning():
                assert (neighbours.share() or 0.0) > 0.25  # of a core; they would take all that there are
            assert watched(neighbours, idle.pid, 0.05) is not None
        finally:
            idle.kill()


def test_a_program_is_disturbed_by_what_it_has_to_wait_for_and_not_by_its_own_threads(
    neighbours: Neighbours, monkeypatch: pytest.MonkeyPatch
) -> None:
    with crowd(2 * CORES) as alone, subprocess.Popen(["sleep", "60"]) as idle:
        neighbours.start(idle.pid)
        time.sleep(0.3)
        assert (neighbours.share() or 0.0) > 0.5 * CORES
        assert (neighbours.disturbance() or 0.0) < 0.01  # it wanted no core
        idle.kill()
        with crowd(1):
            neighbours.start(alone)
            time.sleep(0.5)
            assert (neighbours.disturbance() or 0.0) > 0.03
        neighbours.start(alone)
        waited = neighbours.waited(alone)
        time.sleep(0.3)
        assert neighbours.waited(alone) > waited  # for its own threads
        monkeypatch.setattr(neighbours, "share", lambda: 0.0)  # that nobody else runs here a test cannot demand
        assert neighbours.disturbance() == 0.0


def test_whether_a_program_rests_and_how_long_it_ran_is_known_with_all_it_started(neighbours: Neighbours) -> None:
    with burning() as pid, subprocess.Popen(["sleep", "60"]) as idle:
        before = neighbours.ran(pid), neighbours.ran(idle.pid)
        time.sleep(0.3)
        assert neighbours.ran(pid) - before[0] > 10_000_000
        assert neighbours.ran(pid, first_threads=True) < neighbours.ran(pid)
        assert not neighbours.rest([pid])
        assert not neighbours.rest([idle.pid, pid])
        assert neighbours.rest([idle.pid])
        assert neighbours.ran(idle.pid) - before[1] < 10_000_000
        idle.kill()


def test_samples_that_a_neighbour_disturbed_are_taken_again(hands, monkeypatch: pytest.MonkeyPatch) -> None:
    shares = itertools.cycle([0.0, 0.0, 0.9, 0.0])  # two arms a sample: every second sample is disturbed
    monkeypatch.setattr(Neighbours, "start", lambda self, root: None)
    monkeypatch.setattr(Neighbours, "disturbance", lambda self: next(shares))
    report = hands.perform(_task())
    made, kept = report.facts["samples_retaken"], report.facts["rounds"] * report.facts["samples_per_round"]
    assert report.facts["samples_disturbed"] == 0
    assert kept / 2 <= made <= kept


def test_where_neighbours_never_rest_the_least_disturbed_samples_are_kept(hands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Neighbours, "start", lambda self, root: None)
    monkeypatch.setattr(Neighbours, "disturbance", lambda self: 0.9)
    report = hands.perform(_task())
    kept = report.facts["rounds"] * report.facts["samples_per_round"]
    assert report.facts["samples_disturbed"] == kept
    assert report.facts["samples_retaken"] == 2 * kept


def _task() -> TimeTask:
    protocol = PROTOCOLS["quick"].model_copy(update={"rounds": 3, "samples_per_round": 2, "warmup_s": 0.01, "half_width": 1e9})
    files = CandidateFiles(files={"model_new.py": REFERENCE.replace("class Model(", "class ModelNew(")})
    return TimeTask(target="cpu", source=Source(text=REFERENCE), candidate=files, protocol=protocol)


def test_a_process_that_empties_its_command_line_is_seen_all_the_same(neighbours: Neighbours) -> None:
    code = HIDE + "print(flush=True)\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as hidden:
        try:
            assert hidden.stdout is not None
            assert hidden.stdout.readline()
            with open(f"/proc/{hidden.pid}/cmdline", "rb") as file:
                assert file.read() == b""
            before = neighbours.ran(hidden.pid)
            time.sleep(0.3)
            assert neighbours.ran(hidden.pid) - before > 0.05e9
        finally:
            hidden.kill()
