"""One iteration as it ran: the GPU's rows by stream, its gaps by cause, and the host's calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpu_runner.profile.calls import Calls, Interval, blocking, enqueues
from gpu_runner.profile.names import short
from gpu_runner.profile.sweep import Gap
from gpu_runner.profile.trace import GpuRow, Trace

MAX_ROWS = 400
MAX_STREAMS = 6


def timeline(rows: Sequence[GpuRow], gaps: Sequence[Gap], trace: Trace, calls: Calls, window: Interval) -> dict[str, Any]:
    """The iteration of median length; without iterations the whole window. Times are relative to its start.

    The longest MAX_ROWS rows and gaps are kept, and `left_out` says how many are not.
    """
    start, end = _typical(trace.ranges, rows, calls) if trace.ranges else window
    number = next((i for i, (s, _) in enumerate(trace.ranges) if s == start), None)
    shown = [r for r in rows if r.end > start and r.start < end]
    kept = sorted(sorted(shown, key=lambda r: r.start - r.end)[:MAX_ROWS], key=lambda r: r.start)
    streams = sorted({r.stream for r in kept}, key=lambda s: -sum(r.end - r.start for r in kept if r.stream == s))
    idle = [g for g in gaps if g.end > start and g.start < end]
    waits = sorted(idle, key=lambda g: g.start - g.end)[:MAX_ROWS]
    calling = [c for c in trace.calls if c.end > start and c.start < end and (enqueues(c) or blocking(c))]
    spoken = sorted(calling, key=lambda c: c.start - c.end)[:MAX_ROWS]
    return {
        "iteration": number,
        "wall_ns": end - start,
        "streams": [
            {
                "stream": s,
                "rows": [
                    {
                        "name": short(r.name), "kind": r.kind, "copy": r.copy, "start_ns": max(0, r.start - start),
                        "ns": min(r.end, end) - max(r.start, start),
                    }
                    for r in kept if r.stream == s
                ],
            }
            for s in streams[:MAX_STREAMS]
        ],
        "gaps": [
            {
                "cause": g.cause, "start_ns": max(0, g.start - start), "ns": min(g.end, end) - max(g.start, start),
                "before": short(rows[g.row].name) if g.row is not None else "",
            }
            for g in sorted(waits, key=lambda g: g.start)
        ],
        "calls": [
            {
                "name": c.name, "blocking": blocking(c), "start_ns": max(0, c.start - start),
                "ns": min(c.end, end) - max(c.start, start),
            }
            for c in sorted(spoken, key=lambda c: c.start)
        ],
        "left_out": len(shown) - len(kept) + len(idle) - len(waits) + len(calling) - len(spoken)
        + sum(r.stream in streams[MAX_STREAMS:] for r in kept),
    }  # fmt: skip


def _typical(ranges: Sequence[Interval], rows: Sequence[GpuRow], calls: Calls) -> Interval:
    """The range of median length, drawn out to the end of what it enqueued."""
    middle = sorted(ranges, key=lambda r: r[1] - r[0])[len(ranges) // 2]
    following = next((r[0] for r in sorted(ranges) if r[0] > middle[0]), None)
    last = middle[1]
    for row in rows:
        call = calls.of(row)
        if call is not None and middle[0] <= call.start < middle[1]:
            last = max(last, row.end)
    return middle[0], last if following is None else max(middle[1], min(last, following))
