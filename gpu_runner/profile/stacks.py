"""What the host was inside of when it enqueued each row, and the flame tree that comes of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpu_runner.profile.calls import Calls
from gpu_runner.profile.names import short
from gpu_runner.profile.rows import ITERATION, OWN, Row
from gpu_runner.profile.trace import GpuRow

Path = tuple[str, ...]
MAX_CHILDREN = 60
MAX_NODES = 4000
MAX_STACK = 24
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
    same: dict[Path, Path] = {}  # equal stacks are one object
    for thread, moments in wanted.items():
        open_rows = sorted(spans.get(thread, ()), key=lambda r: (r.start, -r.duration))
        stack: list[Row] = []
        at = 0
        for moment, number in sorted(moments):
            while at < len(open_rows) and open_rows[at].start <= moment:
                while stack and stack[-1].end <= open_rows[at].start:
                    stack.pop()
                if len(stack) < MAX_STACK:
                    stack.append(open_rows[at])
                at += 1
            names = tuple(s.name for s in stack if s.end > moment)
            found[number] = same.setdefault(names, names)
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
    """Root, host stack, GPU row: `value_ns` is GPU time of an average iteration. Iterations are no level of their own.

    The largest leaves make it, MAX_NODES at most; what is left out stays in its ancestors' time.
    """
    leaves: dict[tuple[Path, str, bool], int] = defaultdict(int)
    for row, ns, stack in zip(rows, times, stacks, strict=True):
        leaves[stack, row.name, row.kind == "kernel"] += ns
    root = _Node("forward", "root")
    made = 0
    for (stack, name, is_kernel), ns in sorted(leaves.items(), key=lambda item: -item[1]):
        node = root
        node.ns += ns
        steps = [(part, known.get(part, "op")) for part in stack if part != ITERATION and not part.startswith("ProfilerStep#")]
        for step in [*steps, (name, "kernel" if is_kernel else "copy")]:
            if step not in node.below:
                if made >= MAX_NODES:
                    break
                made += 1
                node.below[step] = _Node(*step)
            node = node.below[step]
            node.ns += ns
    return root.told(count)


@dataclass
class _Node:
    name: str
    kind: str
    ns: int = 0
    below: dict[tuple[str, str], _Node] = field(default_factory=dict)

    def told(self, count: int) -> dict[str, Any]:
        name = short(self.name) if self.kind in ("kernel", "copy") else self.name.removeprefix(OWN)
        full = {"full_name": self.name} if self.name != name else {}
        children = sorted(self.below.values(), key=lambda node: -node.ns)[:MAX_CHILDREN]
        return {
            "name": name, **full, "kind": self.kind, "value_ns": self.ns // count,
            "children": [child.told(count) for child in children],
        }  # fmt: skip
