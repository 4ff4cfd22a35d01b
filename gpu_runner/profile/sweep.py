"""Sweeps over one GPU's rows: how long it was busy, and what each idle gap waited for.

A gap is charged to a cause by the call that enqueued the row which ends it, but to `sync` as far as it would not be there had
the host not waited. Causes are judged by the GPU's idle time alone: the sum of launch calls says nothing (a full queue makes
them block), and neither does the time inside of synchronising calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpu_runner.profile.calls import Calls, Interval
from gpu_runner.profile.trace import GpuRow
from gpu_runner.profile.waits import Replay, union

CAUSES = ("sync", "host", "launch", "dependency", "switch", "uvm", "unknown")
_COPIES = ("H2D", "D2H", "P2P", "UVM_H2D", "UVM_D2H", "UVM_D2D")  # those that could be avoided or overlapped


@dataclass(frozen=True, slots=True)
class Gap:
    """An idle stretch of the GPU, or the part of one that has this cause. `row` is the index of the row that ends the stretch,
    None at the end of the range."""

    start: int
    end: int
    cause: str
    row: int | None = None


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


def gaps(rows: Sequence[GpuRow], window: Interval, calls: Calls) -> list[Gap]:
    """Every idle stretch inside the window with its cause. `rows` in order of start. One that a wait of the host explains in
    part is two: the wait's part, then the other's."""
    found = []
    replay = Replay(calls, rows, window)
    at = window[0]
    for number, row in enumerate(rows):
        cause = calls.cause((at, row.start), row) if row.start > at else ""
        left = row.start - replay.idle(row, at, cause)
        if at < left:
            found.append(Gap(at, left, "sync", number))
        if max(at, left) < row.start:
            found.append(Gap(left, row.start, cause, number))
        at = max(at, row.end)
    if at < window[1]:
        found.append(Gap(at, window[1], "unknown"))
    return found
