"""What the host was inside of when it enqueued each row, and the flame tree that comes of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from gpu_runner.profile.names import short
from gpu_runner.profile.rows import ITERATION, MAX_DEPTH, OWN, Row
from gpu_runner.profile.sweep import Calls
from gpu_runner.profile.trace import GpuRow

Path = tuple[str, ...]
MAX_CHILDREN = 60
_KINDS = {"cpu_op": "op", "user_annotation": "op", "nvtx": "nvtx", "python_function": "python"}


def paths(rows: Sequence[GpuRow], calls: Calls, host: Iterable[Row], *, python: bool = False) -> list[Path]:
    """For each GPU row the names of the host rows that were open on its call's thread, outermost first."""
    spans: dict[str, list[Row]] = defaultdict(list)
    for span in host:
        if python or span.category != "python_function":
            spans[span.thread].append(span)
    wanted: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for number, row in enumerate(rows):
        if (call := calls.of(row)) is not None:
            wanted[call.thread].append((call.start, number))
    found: list[Path] = [()] * len(rows)
    for thread, moments in wanted.items():
        open_rows = sorted(spans.get(thread, ()), key=lambda r: (r.start, -r.duration))
        stack: list[Row] = []
        at = 0
        for moment, number in sorted(moments):
            while at < len(open_rows) and open_rows[at].start <= moment:
                while stack and stack[-1].end <= open_rows[at].start:
                    stack.pop()
                if len(stack) < MAX_DEPTH:
                    stack.append(open_rows[at])
                at += 1
            found[number] = tuple(s.name for s in stack if s.end > moment)
    return found


def kinds(host: Iterable[Row]) -> dict[str, str]:
    """The kind of tree node that each host name is."""
    found: dict[str, str] = {}
    for row in host:
        if row.name not in found:
            found[row.name] = _KINDS.get(row.category, "op")
    return found


def tree(
    rows: Sequence[GpuRow], times: Sequence[int], stacks: Sequence[Path], known: dict[str, str], count: int
) -> dict[str, Any]:
    """Root, host stack, GPU row: `value_ns` is GPU time of an average iteration. Iterations are no level of their own."""
    nodes: dict[Path, int] = defaultdict(int)
    leaf_kinds: dict[Path, str] = {}
    for row, ns, stack in zip(rows, times, stacks, strict=True):
        place = tuple(name for name in stack if name != ITERATION and not name.startswith("ProfilerStep#"))
        leaf = (*place, "\0" + row.name)
        leaf_kinds[leaf] = "kernel" if row.kind == "kernel" else "copy"
        for depth in range(len(leaf) + 1):
            nodes[leaf[:depth]] += ns
    children: dict[Path, list[Path]] = defaultdict(list)
    for place in nodes:
        if place:
            children[place[:-1]].append(place)

    def node(place: Path) -> dict[str, Any]:
        last = place[-1] if place else "forward"
        kind = leaf_kinds.get(place) or (known.get(last, "op") if place else "root")
        below = sorted(children[place], key=lambda p: -nodes[p])[:MAX_CHILDREN]
        name = short(last[1:]) if last.startswith("\0") else last.removeprefix(OWN)
        full = last[1:] if last.startswith("\0") else last
        own = {"full_name": full} if full != name else {}
        return {"name": name, **own, "kind": kind, "value_ns": nodes[place] // count, "children": [node(p) for p in below]}

    return node(())
