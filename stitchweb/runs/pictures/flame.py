"""The flame view: an icicle of where the time goes, root on top, widths in proportion, zoomed by link."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString

from stitchweb.core.numbers import duration
from stitchweb.runs.charts.axis import pct
from stitchweb.runs.pictures.part import Picture, anchor, cell, fades, hatches, per_cent, positive, rows_of, wrap

ROW = 22
MAX_DEPTH = 24
MAX_CELLS = 600
MAX_ROWS = 60
NARROW = 0.3  # percent of the width below which siblings are summed into one cell
_KINDS = {"root": "root", "op": "op", "nvtx": "nvtx", "python": "python", "kernel": "kernel", "copy": "copy"}
_LEGEND = {
    "op": "operation", "nvtx": "range", "python": "Python", "kernel": "kernel", "copy": "copy", "rest": "several small ones",
}  # fmt: skip


@dataclass(frozen=True)
class _Cell:
    node: Mapping[str, Any] | None  # None: several small siblings in one
    path: str
    depth: int
    left: float
    width: float
    ns: float
    count: int = 1

    @property
    def name(self) -> str:
        return str(self.node.get("name", "")).removeprefix("aten::") if self.node is not None else f"{self.count} others"

    @property
    def kind(self) -> str:
        return _KINDS.get(str(self.node.get("kind", "")), "op") if self.node is not None else "rest"


def _value(node: Mapping[str, Any]) -> float:
    return positive(node.get("value_ns"))


def _children(node: Mapping[str, Any]) -> list[tuple[int, Mapping[str, Any]]]:
    """(place, child), the longest first. The place names it in a link."""
    children = node.get("children")
    found = [(n, c) for n, c in enumerate(children if isinstance(children, list) else ()) if isinstance(c, Mapping)]
    return sorted(found, key=lambda pair: -_value(pair[1]))


def find(tree: Mapping[str, Any], focus: str) -> list[tuple[str, Mapping[str, Any]]]:
    """(path, node) from the root to the focused node; a path that leads nowhere ends where it still leads."""
    found: list[tuple[str, Mapping[str, Any]]] = [("", tree)]
    for part in focus.split(".")[:MAX_DEPTH] if focus else ():
        children = dict(_children(found[-1][1]))
        if not (part.isascii() and part.isdecimal() and len(part) < 5) or int(part) not in children:
            break
        path = f"{found[-1][0]}.{part}".removeprefix(".")
        found.append((path, children[int(part)]))
    return found


def _cells(node: Mapping[str, Any], path: str, scale: float, left: float, depth: int, squeeze: float = 1.0) -> Iterator[_Cell]:
    """The node and what is below it. Children that overlap in time (threads, streams) are drawn to fit their parent."""
    value = _value(node)
    yield _Cell(node, path, depth, left, 100 * value * squeeze / scale, value)
    if depth + 1 >= MAX_DEPTH:
        return
    children = _children(node)
    total = sum(_value(child) for _, child in children)
    squeeze *= min(1.0, value / total) if total else 1.0
    small, count = 0.0, 0
    for place, child in children:
        wide = 100 * _value(child) * squeeze / scale
        if wide < NARROW:
            small, count = small + _value(child), count + (1 if _value(child) else 0)
            continue
        yield from _cells(child, f"{path}.{place}".removeprefix("."), scale, left, depth + 1, squeeze)
        left += wide
    if 100 * small * squeeze / scale >= NARROW / 2:
        yield _Cell(None, path, depth + 1, left, 100 * small * squeeze / scale, small, count)


def flame(
    tree: Mapping[str, Any] | None, *, prefix: str, title: str, focus: str = "", link: Callable[[str], str] | None = None,
    scale_ns: float | None = None,
) -> Picture | None:  # fmt: skip
    """Draw a tree `{name, kind, value_ns, children}`; None where it holds no time.

    `focus`: the path of the node that fills the width, its ancestors above it; `link(path)`: the address that focuses a node. The
    focused node itself leads to the one above it. A cell's id is its path: `c3-flame-n0-2`, the root's is `c3-flame-n`.
    Two pictures with one `scale_ns` share one ns per px, which a focus lifts.
    """
    if not isinstance(tree, Mapping) or not _value(tree):
        return None
    line = find(tree, focus)
    path, node = line[-1]
    scale = max(_value(node), 1.0) if path else max(scale_ns or 0.0, _value(tree), 1.0)
    above = [_Cell(n, p, depth, 0.0, 100.0, _value(n)) for depth, (p, n) in enumerate(line[:-1])]
    cells = above + list(islice(_cells(node, path, scale, 0.0, len(above)), MAX_CELLS))
    whole = _value(tree)
    drawn = []
    for item in cells:
        of_all = 100 * item.ns / whole
        named = f"{item.name} {duration(item.ns / 1e6)}"
        words = f"{named}, {per_cent(of_all)} of all"
        if item.node is not None and item.node.get("full_name"):
            words += f"\n{item.node['full_name']}"
        is_above, is_focus = item.depth < len(above), bool(path) and item.node is node
        leads = is_above or is_focus or (item.path != path and item.node is not None and bool(_children(item.node)))
        goal = item.path.rpartition(".")[0] if is_focus else item.path
        words += ", zoom out" if is_focus and link is not None else ""
        label = named if item.width > 14 else item.name
        drawn.append(
            cell(
                prefix, item.kind, item.left, item.width, item.depth * ROW, ROW, label, title=words,
                extra=" up" if is_above else "", link=link(goal) if link is not None and leads else "",
                ident=f"{anchor(prefix, 'flame')}-n{item.path.replace('.', '-')}" if item.node is not None else "",
            )
        )  # fmt: skip
    height = (max(item.depth for item in cells) + 1) * ROW
    top = ", ".join(f"{c.get('name')} {duration(_value(c) / 1e6)}" for _, c in _children(node)[:6])
    said = (
        f"{title}: {duration(_value(node) / 1e6)}" + (f" in {node.get('name')}" if path else "") + (f"; {top}" if top else "")
    )
    kinds = {item.kind for item in cells}
    rows = [
        (
            "\u2003" * item.depth + str(item.node.get("full_name") or item.name if item.node is not None else item.name),
            _LEGEND.get(item.kind, "all"),
            duration(item.ns / 1e6),
            per_cent(100 * item.ns / whole),
        )
        for item in cells[:MAX_ROWS]
    ]
    return Picture(
        "flame", title,
        wrap(prefix, "flame", height, said, hatches(prefix), fades(prefix, kinds), *_guides(path, above), *drawn, role="group" if link is not None else "img"),
        ("Name", "Kind", "Time", "Share of all"), rows_of(rows),
        legend=tuple((kind, word) for kind, word in _LEGEND.items() if kind in kinds),
    )  # fmt: skip


def _guides(path: str, above: list[_Cell]) -> list[SafeString]:
    """A line under the ancestors of a focused node."""
    return [
        format_html('<line class="guide" x2="{}" y1="{}" y2="{}"/>', pct(100), y, y)
        for y in ([len(above) * ROW - 0.5] if path else [])
    ]
