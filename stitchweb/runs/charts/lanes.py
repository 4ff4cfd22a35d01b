"""The candidate tree as lanes: one row per candidate in order of birth, an edge from each parent down to its child."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

_FIRST, _STEP, _ROOM, _MAX = 12, 14, 28, 8  # x of the first lane, distance of lanes, width for all of them, lanes at most


@dataclass(frozen=True)
class Node:
    """A row: `look` is a (best), v (verified), d (under work) or empty; `won`: the best is this one, or stands on it."""

    id: str
    parent: str | None
    look: str = ""
    won: bool = False


def _assign(nodes: Sequence[Node]) -> dict[str, int]:
    """A lane per node: the last child goes on in its parent's lane, its elder siblings branch off into a free one.

    A lane is busy from a parent's row to its last child's.
    """
    order = {node.id: row for row, node in enumerate(nodes)}
    children: dict[str, list[str]] = {}
    for node in nodes:
        if node.parent in order:
            children.setdefault(node.parent, []).append(node.id)
    lane: dict[str, int] = {}
    busy: list[tuple[int, int, int]] = []  # lane, first row, last row

    def free(first: int, last: int) -> int:
        taken = {a for a, start, end in busy if start <= last and end >= first}
        return next(a for a in range(len(nodes) + 1) if a not in taken)

    for node in nodes:
        row = order[node.id]
        kids = children.get(node.id, ())
        end = order[kids[-1]] if kids else row
        if node.parent in order and children[node.parent][-1] == node.id:
            lane[node.id] = lane[node.parent]
        else:
            lane[node.id] = free(order.get(node.parent, row), end)
            if node.parent in order:
                busy.append((lane[node.id], order[node.parent], row))
        busy.append((lane[node.id], row, end))
    return lane


def lanes(nodes: Sequence[Node]) -> dict[str, SafeString]:
    """An SVG cell per candidate id; put under each other they join to the tree."""
    order = {node.id: row for row, node in enumerate(nodes)}
    lane = _assign(nodes)

    most = min(max(lane.values(), default=0), _MAX - 1)
    step = min(_STEP, _ROOM // max(1, most))

    def x(name: str) -> int:
        return _FIRST + step * min(lane[name], most)

    cells = {}
    for row, node in enumerate(nodes):
        paths: list[tuple[str, str]] = []
        for child in nodes:
            if child.parent not in order:
                continue
            top, bottom = order[child.parent], order[child.id]
            look = " d" if child.look == "d" else " w" if child.won else ""
            straight = x(child.id) == x(child.parent)
            if row == top:
                a, b = x(node.id), x(child.id)
                bend = min(8, abs(b - a) // 2) * (1 if b > a else -1)
                paths.append((f"M{a} 18V29" if straight else f"M{a + bend // 2} 14H{b - bend}q{bend} 0 {bend} 8v7", look))
            elif top < row < bottom:
                paths.append((f"M{x(child.id)} -1V29", look))
            elif row == bottom:
                paths.append((f"M{x(child.id)} -1V10", look))
        drawn = sorted(dict.fromkeys(paths), key=lambda path: path[1] == " w")  # the branch that won lies on top
        edges = format_html_join("", '<path class="e{}" d="{}"/>', ((look, path) for path, look in drawn))
        cells[node.id] = format_html(
            '<svg class="graph" viewBox="0 0 44 28" preserveAspectRatio="xMinYMid" aria-hidden="true">{}'
            '<circle class="{}" cx="{}" cy="14" r="{}"/></svg>',
            edges, f"n {node.look}{' w' if node.won else ''}".strip(), x(node.id), "4.5" if node.look == "a" else "4" if step > 8 else "3",
        )  # fmt: skip
    return cells
