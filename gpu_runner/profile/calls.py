"""The host's calls: which of them put work on the GPU, which wait for it, and which call enqueued a row."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence

from gpu_runner.profile.trace import Call, GpuRow
from gpu_runner.stats import median

HOST_SIDE = ("launch", "host")  # causes by which the GPU waits for the host's next call
SWITCH_NS = 10_000  # a gap below it, after a launch in time, is the GPU going from one row to the next
PROMPT_NS = 2_000  # a row that starts no longer after its launch than the promptest one, and this, waited for nothing else
_ENQUEUES = ("Launch", "Memcpy", "Memset", "MemPrefetch")

Interval = tuple[int, int]


def enqueues(call: Call) -> bool:
    """Whether the call puts work on a stream."""
    return any(part in call.name for part in _ENQUEUES)


def blocking(call: Call) -> bool:
    """Whether the call waits for the GPU by its nature: any synchronise, and a plain copy."""
    name = call.name
    if "Synchronize" in name:
        return True
    return ("Memcpy" in name or "memcpy" in name) and "Async" not in name and "Peer" not in name


class Calls:
    """The calls of a trace, by the rows that they enqueued and by thread.

    `waits` and `enqueues`: by thread, in order of start, the calls that wait for the GPU and those that put work on it.
    `latency_ns`: what a kernel takes from the start of its launch to its own, where it waits for nothing else.
    """

    def __init__(self, calls: Iterable[Call], rows: Sequence[GpuRow]) -> None:
        pageable = {r.key for r in rows if r.pageable and r.key is not None}
        self._by_key: dict[Hashable, Call] = {}
        self.waits: dict[str, list[Call]] = defaultdict(list)
        self.enqueues: dict[str, list[Call]] = defaultdict(list)
        for call in calls:
            if call.key is not None and (call.key not in self._by_key or enqueues(call)):
                self._by_key[call.key] = call
            if blocking(call) or call.key in pageable:
                self.waits[call.thread].append(call)
            if enqueues(call):
                self.enqueues[call.thread].append(call)
        for group in (*self.waits.values(), *self.enqueues.values()):
            group.sort(key=lambda call: call.start)

        launched = [(row, sent) for row in rows if row.kind == "kernel" and (sent := self.of(row)) is not None]
        self._prompt = min((max(0, row.start - sent.end) for row, sent in launched), default=0) + PROMPT_NS
        self.latency_ns = self._prompt + int(median([sent.end - sent.start for _, sent in launched]) if launched else 0)

    def of(self, row: GpuRow) -> Call | None:
        """The call that enqueued the row."""
        return self._by_key.get(row.key) if row.key is not None else None

    def cause(self, gap: Interval, row: GpuRow) -> str:
        """What the GPU waited for in the gap before `row`, as far as this one gap tells: one of sweep.CAUSES, never `sync`."""
        start, end = gap
        call = self.of(row)
        if call is None:
            return "uvm" if row.copy.startswith("UVM") else "unknown"
        if call.start < start:
            # A launch takes a few µs to reach the GPU: where rows are as short, the next call begins while the one before runs.
            if row.kind == "kernel" and row.start - call.end <= min(SWITCH_NS, self._prompt):
                return "launch"
            return "switch" if end - start < SWITCH_NS else "dependency"
        return "launch" if 2 * (min(call.end, end) - max(call.start, start)) > end - start else "host"
