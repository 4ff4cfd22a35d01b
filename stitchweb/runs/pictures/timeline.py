"""One iteration as it ran: the host's calls, each stream's rows, and below them the gaps by cause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString

from stitchweb.core.numbers import duration
from stitchweb.runs.charts.axis import pct
from stitchweb.runs.pictures.part import (
    PARTS,
    Picture,
    anchor,
    cell,
    fades,
    hatches,
    per_cent,
    positive,
    rows_of,
    span,
    ticks,
    time_unit,
    wrap,
)

HEAD = 17
LANE = 24
MAX_ROWS = 60
_KINDS = {"kernel": "kernel", "copy": "copy", "memset": "memset"}


def _items(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def timeline(line: Mapping[str, Any] | None, *, prefix: str, title: str = "A typical iteration") -> Picture | None:
    """Draw a summary's `timeline`; None where there is none."""
    if not isinstance(line, Mapping) or not positive(line.get("wall_ns")):
        return None
    wall = positive(line.get("wall_ns"))
    unit = time_unit(wall)
    drawn: list[SafeString] = []
    rows: list[Sequence[object]] = []
    used: set[str] = set()
    lanes: list[tuple[str, list[tuple[str, str, str, float, float]]]] = []
    calls = [
        (
            "wait" if c.get("blocking") else "call",
            str(c.get("name", "")),
            "",
            positive(c.get("start_ns")),
            positive(c.get("ns")),
        )
        for c in _items(line.get("calls"))
    ]
    if calls:
        lanes.append(("Host: launches, copies and waits", calls))
    for stream in _items(line.get("streams")):
        items = [
            (
                _KINDS.get(str(r.get("kind")), "kernel"),
                str(r.get("name", "")),
                "",
                positive(r.get("start_ns")),
                positive(r.get("ns")),
            )
            for r in _items(stream.get("rows"))
        ]
        lanes.append((f"GPU, stream {stream.get('stream')}", items))
    gaps = [
        (
            PARTS.get(str(g.get("cause")), PARTS["unknown"])[0],
            str(g.get("cause")),
            str(g.get("before", "")),
            positive(g.get("start_ns")),
            positive(g.get("ns")),
        )
        for g in _items(line.get("gaps"))
    ]
    if gaps:
        lanes.append(("GPU idle, by cause", gaps))
    first: set[str] = set()
    y = 0.0
    for lane, items in lanes:
        drawn.append(
            format_html(
                '<text y="{}">{}</text><rect class="lane" y="{}" width="100%" height="{}"/>', y + 12, lane, y + HEAD, LANE - 1
            )
        )
        y += HEAD
        for klass, name, before, start, ns in items:
            left, width = 100 * start / wall, max(100 * ns / wall, 0.12)
            if left >= 100:
                continue
            used.add(klass)
            idle = klass == name or klass in ("unknown", "switch")
            word = f"idle: {name}" + (f", before {before}" if before else "") if idle else name
            ident = anchor(prefix, f"timeline:{name}") if idle and name not in first else ""
            first.add(name) if idle else None
            drawn.append(
                cell(prefix, klass, left, min(width, 100 - left), y, LANE, name if width >= 3 else "",
                     title=f"{word}, {duration(ns / 1e6)}, {per_cent(100 * ns / wall)}, from {span(start, unit)}", ident=ident)
            )  # fmt: skip
            rows.append((word, lane, span(start, unit), duration(ns / 1e6), per_cent(100 * ns / wall)))
        y += LANE + 5
    marks = [t for t in ticks(0, wall / _factor(unit)) if t * _factor(unit) <= wall]
    grid = [
        format_html(
            '<line class="gr" x1="{0}" x2="{0}" y1="0" y2="{1}"/><text x="{0}" y="{2}" text-anchor="{3}">{4}</text>',
            pct(100 * t * _factor(unit) / wall), y, y + 13, "start" if not t else "end" if t * _factor(unit) > 0.94 * wall else "middle",
            f"{t:g}" if t else f"0 {unit}",
        )
        for t in marks
    ]  # fmt: skip
    idle_ns = sum(g[4] for g in gaps)
    left_out = int(positive(line.get("left_out")))
    rows.sort(key=lambda row: str(row[1]))
    said = f"{title}, {duration(wall / 1e6)}: GPU idle {per_cent(100 * idle_ns / wall, 0)}"
    classes = [klass for klass in ("call", "wait", "kernel", "copy", "memset") if klass in used]
    words = {"call": "call", "wait": "call that waits", "kernel": "kernel", "copy": "copy", "memset": "memset"}
    legend = [(k, words[k]) for k in classes] + [PARTS[p] for p in PARTS if PARTS[p][0] in used and PARTS[p][0] not in classes]
    return Picture(
        "timeline", title,
        wrap(prefix, "timeline", y + 16, said, hatches(prefix), fades(prefix, used), *grid, *drawn),
        ("What", "Where", "From", "Time", "Share"), rows_of(rows[:MAX_ROWS]),
        note=f"{left_out} more rows are too short to be shown." if left_out else "", legend=tuple(legend),
    )  # fmt: skip


def _factor(unit: str) -> float:
    return {"ns": 1.0, "µs": 1e3, "ms": 1e6, "s": 1e9}[unit]
