"""An icicle of where time goes: root on top, children below, widths in proportion. Names are hostile and only ever text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from stitchweb.core.numbers import duration
from stitchweb.runs.charts.axis import pct

ROW = 22
MAX_DEPTH = 8
_NARROW = 0.35  # percent of the width below which siblings are summed into one "others" cell
_CHAR = 1.75  # percent of the width that one character needs in the narrowest panel
_KINDS = {
    "root": "k-root",
    "op": "k-op",
    "nvtx": "k-op",
    "python": "k-op",
    "kernel": "k-kern",
    "copy": "k-copy",
    "idle": "k-idle",
}


@dataclass(frozen=True)
class _Cell:
    name: str
    kind: str
    ns: float
    depth: int
    left: float
    width: float


def _value(node: Mapping[str, Any]) -> float:
    value = node.get("value_ns")
    return float(value) if isinstance(value, int | float) and value > 0 else 0.0


def _cells(node: Mapping[str, Any], scale: float, left: float = 0.0, depth: int = 0) -> Iterator[_Cell]:
    width = 100 * _value(node) / scale
    yield _Cell(str(node.get("name", "")).removeprefix("aten::"), str(node.get("kind", "op")), _value(node), depth, left, width)
    if depth + 1 >= MAX_DEPTH:
        return
    children = [c for c in node.get("children") or () if isinstance(c, Mapping)]
    # Children that overlap in time (threads, streams) can sum to more than their parent: they are drawn to fit it.
    total = sum(map(_value, children))
    squeeze = min(1.0, _value(node) / total) if total else 1.0
    small = 0.0
    for child in sorted(children, key=_value, reverse=True):
        wide = 100 * _value(child) * squeeze / scale
        if wide < _NARROW:
            small += _value(child)
            continue
        yield from _cells(child, scale / squeeze, left, depth + 1)
        left += wide
    if 100 * small * squeeze / scale >= _NARROW:
        yield _Cell("others", "idle", small, depth + 1, left, 100 * small * squeeze / scale)


def icicle(tree: Mapping[str, Any], *, label: str, scale_ns: float | None = None) -> SafeString:
    """Draw a profile tree `{name, kind, value_ns, children}`. Two icicles with one `scale_ns` share one ns per px."""
    scale = max(scale_ns or 0.0, _value(tree), 1.0)
    cells = list(_cells(tree, scale))
    drawn = []
    for cell in cells:
        y = cell.depth * ROW
        words = f"{cell.name} {duration(cell.ns / 1e6)}"
        shown = cell.name[: max(int(cell.width / _CHAR) - 1, 0)]
        text = ""
        if len(shown) >= 3 or shown == cell.name:
            fits = words if len(words) * _CHAR < cell.width else (cell.name if shown == cell.name else shown[:-1] + "…")
            text = format_html(
                '<svg x="{}" y="{}" width="{}" height="21"><text class="l" x="6" y="15">{}</text></svg>',
                pct(cell.left), y, pct(cell.width), fits,
            )  # fmt: skip
        drawn.append(
            format_html(
                '<g><title>{}, {} of the whole</title><rect class="{}" x="{}" y="{}" width="{}" height="21" rx="2"/>{}</g>',
                words,
                f"{100 * cell.ns / max(_value(tree), 1.0):.1f} %",
                _KINDS.get(cell.kind, "k-op"),
                pct(cell.left),
                y,
                pct(cell.width),
                text,
            )
        )
    height = (max(c.depth for c in cells) + 1) * ROW
    return format_html(
        '<svg class="ice" height="{}" role="img" aria-label="{}">{}</svg>',
        height, label, format_html_join("", "{}", ((d,) for d in drawn)),
    )  # fmt: skip
