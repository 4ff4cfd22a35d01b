"""What is read to empty the caches is memory that is there, on every core, and the reader's own place stays what it was."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from gpu_runner import eviction as evicting
from gpu_runner.eviction import Eviction, shared

SIZE = 8 << 20


def resident_kib() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 10


def test_all_of_it_is_memory_and_reading_it_leaves_this_process_where_it_may_run() -> None:
    before, cores = resident_kib(), os.sched_getaffinity(0)
    eviction = Eviction(SIZE, sorted(cores))
    eviction.evict()
    assert resident_kib() - before >= SIZE * 0.9 / 1024
    assert os.sched_getaffinity(0) == cores
    threads = os.listdir("/proc/self/task")
    eviction.evict()
    assert os.listdir("/proc/self/task") == threads, "a thread that is started is news to whoever watches the machine"
    eviction.close()


def test_a_cache_that_is_smaller_than_a_piece_for_each_core_is_emptied_too() -> None:
    eviction = Eviction(1, [min(os.sched_getaffinity(0))])
    eviction.evict()
    eviction.close()


def test_what_an_interrupted_turn_left_does_not_end_the_next_one_early(monkeypatch: pytest.MonkeyPatch) -> None:
    eviction = Eviction(SIZE, sorted(os.sched_getaffinity(0)))

    eviction._turn += 1  # as `evict` does, and is interrupted before it has heard of all
    for turn in eviction._turns:
        turn.put(eviction._turn)
    time.sleep(0.1)
    search = evicting._search

    def slow(*given: object) -> object:
        time.sleep(0.2)
        return search(*given)

    monkeypatch.setattr(evicting, "_search", slow)
    before = time.monotonic()
    eviction.evict()
    assert time.monotonic() - before >= 0.2
    eviction.close()


def test_it_is_kept_until_another_one_is_wanted() -> None:
    cores = (min(os.sched_getaffinity(0)),)
    first = shared(SIZE, cores)
    assert shared(SIZE, cores) is first
    second = shared(2 * SIZE, cores)
    assert second is not first
    assert shared(2 * SIZE, cores) is second
