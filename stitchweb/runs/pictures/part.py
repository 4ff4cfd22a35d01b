"""What all pictures are made of: a cell with a label that fades at its edge, patterns, anchors that evidence links to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from stitchweb.core.numbers import NBSP, sig
from stitchweb.runs.charts.axis import pct

MAX_LABEL = 80
LEAST = 2.2  # percent of the width that a cell needs for a label
CHARACTER, NARROWEST = 6.4, 300.0  # px of a letter, and of the narrowest panel: a label that fits there needs no faded edge
THIN = 6.5  # below it the label goes where the panel is narrow
# What the GPU's time went into, in the order of the bar: (class, word, whether it is drawn with a pattern).
PARTS: dict[str, tuple[str, str]] = {
    "kernels": ("kernel", "kernels"),
    "copies": ("copy", "copies alone"),
    "other": ("memset", "other rows"),
    "sync": ("sync", "idle: host waited for the GPU"),
    "host": ("host", "idle: host was at work"),
    "launch": ("launch", "idle: inside a launch"),
    "dependency": ("dependency", "idle: waits for a stream or event"),
    "uvm": ("uvm", "idle: unified memory moves"),
    "switch": ("switch", "idle: from row to row"),
    "unknown": ("unknown", "idle: cause unknown"),
}


@dataclass(frozen=True)
class Picture:
    """`id` is its anchor in the page; `columns` and `rows` say in text what `svg` shows, first column the name."""

    id: str
    title: str
    svg: SafeString
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    legend: tuple[tuple[str, str], ...] = ()  # (class, word)
    is_open: bool = False  # the table is shown: the picture alone does not name its parts


def anchor(prefix: str, shown_in: str) -> str:
    """The id of a part of a picture: `causes:sync` of the candidate c3 is `c3-causes-sync`."""
    return re.sub(r"[^A-Za-z0-9]+", "-", f"{prefix}-{shown_in}").strip("-")[:80].rstrip("-")


def number(value: Any) -> float | None:
    """A finite number, None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value or abs(value) > 1e300:
        return None
    return float(value)


def positive(value: Any) -> float:
    """A number above zero, or zero."""
    found = number(value)
    return found if found is not None and found > 0 else 0.0


def per_cent(share: float | None, digits: int = 1) -> str:
    return "–" if share is None else f"{share:.{digits}f}{NBSP}%"


def span(ns: float, unit: str) -> str:
    """Nanoseconds in one unit for a whole axis."""
    return f"{sig(ns / {'ns': 1, 'µs': 1e3, 'ms': 1e6, 's': 1e9}[unit])}{NBSP}{unit}"


def time_unit(ns: float) -> str:
    """The unit in which a span of this length is written."""
    return "ns" if ns < 2e3 else "µs" if ns < 2e6 else "ms" if ns < 2e9 else "s"


def fades(prefix: str, classes: Iterable[str]) -> SafeString:
    """Gradients that let a label fade out at the right edge of its cell, one for each class of cell."""
    return format_html(
        "<defs>{}</defs>",
        format_html_join(
            "",
            '<linearGradient id="{0}-f-{1}"><stop class="f-{1}" offset="0" stop-opacity="0"/><stop class="f-{1}" offset="1"/></linearGradient>',
            ((prefix, name) for name in sorted(set(classes))),
        ),
    )


def hatches(prefix: str) -> SafeString:
    """The patterns of pictures, so that no meaning rests on colour."""
    return format_html(
        '<defs><pattern id="{0}-h-copy" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="s-copy" width="6" height="6"/><line class="hl" y2="6"/></pattern>'
        '<pattern id="{0}-h-sync" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(-45)"><rect class="s-sync" width="7" height="7"/><line class="hl" y2="7"/></pattern>'
        '<pattern id="{0}-h-host" width="6" height="6" patternUnits="userSpaceOnUse"><rect class="s-host" width="6" height="6"/><circle class="hd" cx="2" cy="2" r="1"/></pattern>'
        '<pattern id="{0}-h-launch" width="5" height="5" patternUnits="userSpaceOnUse"><rect class="s-launch" width="5" height="5"/><line class="hl" y2="5"/></pattern>'
        '<pattern id="{0}-h-dependency" width="7" height="7" patternUnits="userSpaceOnUse"><rect class="s-dependency" width="7" height="7"/><line class="hl" x2="7"/></pattern>'
        '<pattern id="{0}-h-uvm" width="7" height="7" patternUnits="userSpaceOnUse"><rect class="s-uvm" width="7" height="7"/><line class="hl" x2="7"/><line class="hl" y2="7"/></pattern></defs>',
        prefix,
    )


_HATCHED = {"copy", "sync", "host", "launch", "dependency", "uvm"}


def paint(prefix: str, name: str) -> SafeString:
    """The fill of a class as an attribute: its pattern where it has one, else none and the class paints."""
    return format_html(' fill="url(#{}-h-{})"', prefix, name) if name in _HATCHED else SafeString("")


def cell(
    prefix: str, name: str, left: float, width: float, top: float, height: float, label: str, *, title: str, extra: str = "",
    ident: str = "", link: str = "",
) -> SafeString:  # fmt: skip
    """A bar of class `name` from `left` and `width` wide (percent), its label inside where there is room for some letters."""
    text = SafeString("")
    if label and width >= LEAST:
        fits = len(label) * CHARACTER + 8 <= width / 100 * NARROWEST
        fade = '<rect class="edge" x="100%" width="16" height="{}" fill="url(#{}-f-{})"/>'
        edge = SafeString("") if fits else format_html(fade, height - 1, prefix, name)
        text = format_html(
            '<svg{} x="{}" y="{}" width="{}" height="{}"><text class="l l-{}" x="5" y="{}">{}</text>{}</svg>',
            SafeString(' class="thin"') if width < THIN else "",
            pct(left), top, pct(width), height - 1, name, (height - 1) / 2 + 4, label[:MAX_LABEL], edge,
        )  # fmt: skip
    body = format_html(
        '<title>{}</title><rect class="c c-{}{}" x="{}" y="{}" width="{}" height="{}"{}/>{}',
        title, name, extra, pct(left), top, pct(width), height - 1, paint(prefix, name), text,
    )  # fmt: skip
    named = format_html(' id="{}"', ident) if ident else SafeString("")
    if link:
        return format_html('<a{} href="{}">{}</a>', named, link, body)  # its title is its name
    return format_html("<g{}>{}</g>", named, body)


def headline(name: str, reading: str, top: float, share: int = 60) -> SafeString:
    """A line over a bar: the name to the left, cut where it would meet the reading to the right. `share`: the name's per cent."""
    return format_html(
        '<svg y="{}" width="{}" height="16"><text class="hi" y="11">{}</text></svg><text x="100%" y="{}" text-anchor="end">{}</text>',
        top, pct(share), name[:MAX_LABEL], top + 11, reading,
    )  # fmt: skip


def ticks(low: float, high: float, at_most: int = 6) -> list[float]:
    """Round values inside of a linear axis."""
    if not high > low:
        return []
    rough = (high - low) / at_most
    power = 10.0 ** len(str(int(rough))) / 10 if rough >= 1 else 1.0
    step = next(s * power for s in (1, 2, 5, 10, 20, 50, 100) if s * power >= rough)
    first = -(-low // step)
    return [step * n for n in range(int(first), int(high // step) + 1)]


def wrap(
    prefix: str, name: str, height: float, label: str, *content: SafeString, css: str = "", role: str = "img"
) -> SafeString:  # fmt: skip
    """The outer element: no viewBox, so that percent is of the panel and text keeps its size. `role`: a picture with links in it
    is a group, since what is inside of an image is hidden from readers."""
    return format_html(
        '<svg class="pic {}" id="{}" width="100%" height="{}" role="{}" aria-label="{}">{}</svg>',
        css or name, anchor(prefix, name), height, role, label, format_html_join("", "{}", ((c,) for c in content)),
    )  # fmt: skip


def rows_of(values: Iterable[Sequence[object]]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(str(v) for v in row) for row in values)
