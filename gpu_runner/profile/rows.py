"""Rows of a trace as typed data, and the sweeps over them. Times in integer nanoseconds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

ITERATION = "stitchweb_iter"
OWN = "own:"
MAX_DEPTH = 64  # of calls inside calls; deeper ones stay in the time of the last
_GPU = {"kernel", "gpu_memcpy", "gpu_memset"}
_HOST = {"cpu_op", "user_annotation", "python_function", "nvtx"}


@dataclass(slots=True)
class Row:
    """One interval of the host. `children` is set by `nest`."""

    category: str
    name: str
    start: int
    duration: int
    thread: str
    children: list[Row] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.start + self.duration

    @property
    def self_ns(self) -> int:
        """Time outside of children."""
        return max(0, self.duration - sum(child.duration for child in self.children))

    @property
    def on_gpu(self) -> bool:
        return self.category in _GPU


def parse_rows(data: Any, limit: int = 40_000) -> list[Row]:
    """The rows of an answer. Anything malformed is left out: a profile claims nothing."""
    rows = []
    for item in data[:limit] if isinstance(data, list) else []:
        if isinstance(item, list) and len(item) == 5 and all(isinstance(n, int) and 0 <= n < 1 << 62 for n in item[2:4]):
            rows.append(Row(str(item[0])[:40], str(item[1])[:200], item[2], item[3], str(item[4])[:40]))
    return rows


def nest(rows: Iterable[Row]) -> list[Row]:
    """The forest of host rows, per thread, by containment, MAX_DEPTH high at most. Returns the roots in order of start."""
    roots: list[Row] = []
    by_thread: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row.category in _HOST:
            by_thread[row.thread].append(row)
    for items in by_thread.values():
        stack: list[Row] = []
        for row in sorted(items, key=lambda r: (r.start, -r.duration)):
            row.children = []
            while stack and row.start >= stack[-1].end:
                stack.pop()
            if len(stack) >= MAX_DEPTH:
                continue
            (stack[-1].children if stack else roots).append(row)
            stack.append(row)
    return sorted(roots, key=lambda r: r.start)


def iterations(roots: list[Row]) -> list[Row]:
    """The measured forwards."""
    return [row for row in roots if row.name == ITERATION]


def walk(row: Row) -> Iterable[Row]:
    """The row and everything below it."""
    yield row
    for child in row.children:
        yield from walk(child)


def op_times(rows: list[Row], names: set[str]) -> dict[str, int]:
    """Nanoseconds per iteration of each named operation, with everything it calls; an operation inside another named one is
    part of that one."""
    runs = iterations(nest(rows))
    times: dict[str, int] = defaultdict(int)

    def visit(row: Row) -> None:
        if row.name in names:
            times[row.name] += row.duration
            return
        for child in row.children:
            visit(child)

    for run in runs:
        visit(run)
    return {name: total // max(1, len(runs)) for name, total in times.items()}
