"""Sweeps over one GPU's rows: how long it was busy, and what each idle gap waited for.

A gap is charged to a cause by the call that enqueued the row which ends it. Causes are judged by the GPU's idle time alone: the
sum of launch calls says nothing (a full queue makes them block), and neither does the time inside of synchronising calls.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from gpu_runner.profile.trace import Call, GpuRow

CAUSES = ("sync", "host", "launch", "dependency", "switch", "uvm", "unknown")
SWITCH_NS = 10_000  # a gap below it, after a launch in time, is the GPU going from one row to the next
PROMPT_NS = 2_000  # a row that starts no longer after its launch than the promptest one, and this, waited for nothing else
SYNC_NS = 1_000_000  # a blocking call that ended longer before the gap did not cause it
_ENQUEUES = ("Launch", "Memcpy", "Memset", "MemPrefetch")
_COPIES = ("H2D", "D2H", "P2P", "UVM_H2D", "UVM_D2H", "UVM_D2D")  # those that could be avoided or overlapped

Interval = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Gap:
    """An idle stretch of the GPU. `row` is the index of the row that ends it, None at the end of the range."""

    start: int
    end: int
    cause: str
    row: int | None = None


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """The same points, as disjoint intervals in order."""
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            if end > merged[-1][1]:
                merged[-1] = (merged[-1][0], end)
        elif end > start:
            merged.append((start, end))
    return merged


def length(intervals: Iterable[Interval]) -> int:
    """The sum of disjoint intervals."""
    return sum(end - start for start, end in intervals)


def clip(rows: Iterable[GpuRow], window: Interval) -> list[GpuRow]:
    """The rows that touch the window, in order of start."""
    return sorted((r for r in rows if r.end > window[0] and r.start < window[1]), key=lambda r: (r.start, r.end))


def inside(rows: Iterable[GpuRow], window: Interval) -> list[Interval]:
    """The rows' intervals within the window."""
    return [(max(r.start, window[0]), min(r.end, window[1])) for r in rows]


def avoidable(row: GpuRow) -> bool:
    """Whether the row is a copy between the host and the device, or between devices."""
    return row.kind == "copy" and row.copy in _COPIES


def exposed(rows: Sequence[GpuRow], window: Interval) -> int:
    """Nanoseconds of copies with no kernel beside them."""
    kernels = inside([r for r in rows if r.kind == "kernel"], window)
    copies = inside([r for r in rows if avoidable(r)], window)
    return length(union(kernels + copies)) - length(union(kernels))


class Calls:
    """The host's calls, by the rows they enqueued and by thread."""

    def __init__(self, calls: Iterable[Call], rows: Sequence[GpuRow]) -> None:
        pageable = {r.key for r in rows if r.pageable and r.key is not None}
        self._by_key: dict[Hashable, Call] = {}
        self._blocking: dict[str, list[Call]] = defaultdict(list)
        self._enqueues: dict[str, list[Call]] = defaultdict(list)
        for call in calls:
            if call.key is not None and (call.key not in self._by_key or enqueues(call)):
                self._by_key[call.key] = call
            if blocking(call) or call.key in pageable:
                self._blocking[call.thread].append(call)
            if enqueues(call):
                self._enqueues[call.thread].append(call)
        for group in (*self._blocking.values(), *self._enqueues.values()):
            group.sort(key=lambda call: call.start)
        self._starts = {
            id(group): [call.start for call in group] for group in (*self._blocking.values(), *self._enqueues.values())
        }

        launched = [row for row in rows if row.kind == "kernel"]
        delays = [max(0, row.start - sent.end) for row in launched if (sent := self.of(row)) is not None]
        self._prompt = min(delays, default=0) + PROMPT_NS

    def of(self, row: GpuRow) -> Call | None:
        """The call that enqueued the row."""
        return self._by_key.get(row.key) if row.key is not None else None

    def _before(self, group: list[Call] | None, when: int) -> Call | None:
        if not group:
            return None
        at = bisect.bisect_left(self._starts[id(group)], when)
        return group[at - 1] if at else None

    def cause(self, gap: Interval, row: GpuRow) -> str:
        """Which of CAUSES the gap before `row` is charged to."""
        start, end = gap
        call = self.of(row)
        if call is None:
            return "uvm" if row.copy.startswith("UVM") else "unknown"
        if call.start < start:
            # A launch takes a few µs to reach the GPU: where rows are as short, the next call begins while the one before runs.
            prompt = row.kind == "kernel" and row.start - call.end <= min(SWITCH_NS, self._prompt)
            short = "launch" if prompt else "switch"
            return short if end - start < SWITCH_NS else "dependency"
        waited = self._before(self._blocking.get(call.thread), call.start)
        sent = self._before(self._enqueues.get(call.thread), call.start)
        if waited is not None and waited.end >= start - SYNC_NS and (sent is None or waited.end >= sent.end):
            return "sync"
        return "launch" if 2 * (min(call.end, end) - max(call.start, start)) > end - start else "host"


def enqueues(call: Call) -> bool:
    """Whether the call puts work on a stream."""
    return any(part in call.name for part in _ENQUEUES)


def blocking(call: Call) -> bool:
    """Whether the call waits for the GPU by its nature: any synchronise, and a plain copy."""
    name = call.name
    if "Synchronize" in name:
        return True
    return ("Memcpy" in name or "memcpy" in name) and "Async" not in name and "Peer" not in name


def gaps(rows: Sequence[GpuRow], window: Interval, calls: Calls) -> list[Gap]:
    """Every idle stretch inside the window with its cause. `rows` in order of start."""
    found = []
    at = window[0]
    for number, row in enumerate(rows):
        if row.start > at:
            found.append(Gap(at, row.start, calls.cause((at, row.start), row), number))
        at = max(at, row.end)
    if at < window[1]:
        found.append(Gap(at, window[1], "unknown"))
    return found
