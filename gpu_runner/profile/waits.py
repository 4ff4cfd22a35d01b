"""What the host's waits for the GPU cost: the trace, replayed as if the host had not waited.

Where the host waits for a result, the GPU runs dry, and each launch after it finds an idle GPU: the gaps look as if launches
were slow, though without the wait the host would have been ahead. So the rows are played once more by a clock of the host from
which the waits are taken out. What is idle in the replay too is for want of launches; what vanishes is the cost of the waits.

The order of the rows, their durations, their overlaps, and idle time of other causes stay as they were. The queue has no end in
the replay. A profiler slows the host, and the replay knows no other host: where kernels are so short that the profiled host
cannot keep ahead of them, the launches are named, whatever the waits cost.
"""

from __future__ import annotations

import bisect
import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence

from gpu_runner.profile.calls import HOST_SIDE, SWITCH_NS, Calls, Interval
from gpu_runner.profile.trace import Call, GpuRow

AFTER_NS = 1_000_000  # of the host's work after a wait that counts as the wait's: more than that is work of its own


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


class _Spent:
    """How much of a set of disjoint intervals lies before a moment."""

    def __init__(self, intervals: Sequence[Interval]) -> None:
        self._starts = [start for start, _ in intervals]
        self._ends = [end for _, end in intervals]
        self._sums = [0, *itertools.accumulate(end - start for start, end in intervals)]

    def before(self, when: int) -> int:
        at = bisect.bisect_left(self._starts, when)
        return self._sums[at] - max(0, self._ends[at - 1] - when) if at else 0

    def within(self, start: int, end: int) -> int:
        return self.before(end) - self.before(start)


class HostClock:
    """When a call would have been made had no thread waited for the GPU.

    A wait is the blocking call and, where the GPU did have work during it, what the host does from its return to its next
    enqueue, AFTER_NS at most: it reads the result. A call that found the GPU at rest for longer than SWITCH_NS waited for
    nothing. A wait holds up all threads, for one hands over to another (autograd's), unless another enqueued meanwhile or was
    the last to do so: then the others went their own way, and only the waiting thread loses time by it.
    """

    def __init__(self, calls: Calls, rows: Sequence[GpuRow], window: Interval) -> None:
        busy = union((row.start - SWITCH_NS, row.end + SWITCH_NS) for row in rows)
        self._busy_starts, self._busy_ends = [start for start, _ in busy], [end for _, end in busy]
        sent = sorted((call.start, thread) for thread, group in calls.enqueues.items() for call in group)
        moments = [start for start, _ in sent]
        everyone: list[Interval] = []
        alone: dict[str, list[Interval]] = defaultdict(list)
        for thread, group in calls.waits.items():
            own = [call.start for call in calls.enqueues.get(thread, ())]
            for wait in group:
                start, end = max(wait.start, window[0]), min(self._back(wait, own), window[1])
                if start >= end:
                    continue
                first, last = bisect.bisect_left(moments, wait.start), bisect.bisect_left(moments, wait.end)
                others = last - first - (bisect.bisect_left(own, wait.end) - bisect.bisect_left(own, wait.start))
                handed = bool(own) and (first == 0 or sent[first - 1][1] == thread)
                (everyone if handed and not others else alone[thread]).append((start, end))
        self._everyone = _Spent(union(everyone))
        self._alone = {thread: union(group) for thread, group in alone.items()}
        self._sums = {
            thread: [0, *itertools.accumulate(self._only(*interval) for interval in group)]
            for thread, group in self._alone.items()
        }

    def of(self, call: Call) -> int:
        """The moment of the call's start by this clock."""
        return call.start - self._everyone.before(call.start) - self._lost(call.thread, call.start)

    def _back(self, wait: Call, own: Sequence[int]) -> int:
        """When the host goes on after a wait: with its next enqueue, which may not be one inside of the wait itself."""
        at = bisect.bisect_left(self._busy_starts, wait.end)
        if not at or self._busy_ends[at - 1] <= wait.start:
            return wait.end
        following = bisect.bisect_left(own, wait.end)
        return min(own[following], wait.end + AFTER_NS) if following < len(own) else wait.end

    def _only(self, start: int, end: int) -> int:
        """Of a stretch that one thread waits, what nobody's clock lacks already."""
        return end - start - self._everyone.within(start, end)

    def _lost(self, thread: str, when: int) -> int:
        group = self._alone.get(thread)
        if not group:
            return 0
        at = bisect.bisect_left(group, (when, when))
        lost = self._sums[thread][at]
        return lost - self._only(when, group[at - 1][1]) if at and group[at - 1][1] > when else lost


class Replay:
    """Plays a GPU's rows again, one after the other in order of start, by a HostClock."""

    def __init__(self, calls: Calls, rows: Sequence[GpuRow], window: Interval) -> None:
        self._calls, self._window = calls, window
        self._clock = HostClock(calls, rows, window)
        self._end = window[0]  # of what has been played
        self._idle = 0  # nanoseconds for which the GPU waited for a call in the replay, and which no gap was charged with yet

    def idle(self, row: GpuRow, end: int, cause: str) -> int:
        """Nanoseconds of the gap before `row` that would be there without waits.

        `end`: of the rows before it; `cause`: of the gap, by Calls, "" where there is none. Idle time of the replay that falls
        where there is no gap, or a smaller one, is charged to later gaps, so that the sum is the replay's.
        """
        start, stop = max(row.start, self._window[0]), min(row.end, self._window[1])
        size = max(0, start - end)
        kept = 0 if cause in HOST_SIDE else start - end  # a gap of another cause, or with a minus sign the overlap
        free = self._end + kept
        begins = free
        if (call := self._calls.of(row)) is not None:
            took = row.start - call.start
            begins = max(free, self._clock.of(call) + (took if cause in HOST_SIDE else min(took, self._calls.latency_ns)))
        self._idle += max(0, begins - max(free, self._end))
        self._end = max(self._end, begins + stop - start)
        if cause not in HOST_SIDE:
            return size
        left = min(size, self._idle)
        self._idle -= left
        return left
