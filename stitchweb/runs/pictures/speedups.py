"""Speedups with their 95 % intervals on one axis, the line at 1 marked: what is faster, and what only may be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.html import format_html
from django.utils.safestring import SafeString

from stitchweb.core.numbers import ratio, ratio_range
from stitchweb.runs.charts.axis import LogAxis, pct
from stitchweb.runs.pictures.part import Picture, rows_of, wrap

LINE = 32


@dataclass(frozen=True)
class Speedup:
    """A ratio over the reference with its interval; `predicted` is at most, `best` is the one that counts."""

    name: str
    value: float
    low: float
    high: float
    predicted: float | None = None
    best: bool = False


def speedups(items: Sequence[Speedup], *, prefix: str) -> Picture | None:
    """One row each, in the given order. None without rows."""
    if not items:
        return None
    axis = LogAxis.around([1.0, *(v for s in items for v in (s.low, s.high, s.predicted))], margin=1.08)
    height = LINE * len(items) + 20
    marks = [t for t in axis.ticks() if abs(axis.at(t) - axis.at(1.0)) > 9]
    drawn: list[SafeString] = [
        format_html('<line class="gr" x1="{0}" x2="{0}" y2="{1}"/><text x="{0}" y="{2}" text-anchor="middle">{3}×</text>', pct(axis.at(t)), height - 18, height - 4, f"{t:g}")
        for t in marks
    ]  # fmt: skip
    one = pct(axis.at(1.0))
    drawn.append(
        format_html(
            '<text class="hi" x="{}" y="{}" text-anchor="{}">1×</text>',
            one,
            height - 4,
            "start" if axis.at(1.0) < 4 else "middle",
        )
    )
    rows = []
    for n, item in enumerate(items):
        y = n * LINE
        left, right, middle = axis.at(item.low), axis.at(item.high), axis.at(item.value)
        sure = item.low > 1.0 or item.high < 1.0
        hue = " best" if item.best else "" if sure else " unsure"
        words = f"{item.name}: {ratio(item.value)} times, 95 percent interval {ratio_range(item.low, item.high)}"
        words += "" if sure else ", not distinguishable from 1"
        prediction = SafeString("")
        if item.predicted is not None:
            words += f", predicted at most {ratio(item.predicted)}"
            prediction = format_html('<circle class="sp-pred" cx="{}" cy="{}" r="4"/>', pct(axis.at(item.predicted)), y + 21)
        drawn.append(
            format_html(
                '<g class="sp{}"><title>{}</title><text class="hi halo" y="{}">{}</text><text class="halo" x="100%" y="{}" text-anchor="end">{}×</text>'
                '<line class="one" x1="{}" x2="{}" y1="{}" y2="{}"/><rect class="sp-iv" x="{}" y="{}" width="{}" height="6" rx="3"/><rect class="sp-mid" x="{}" y="{}" width="3" height="12" rx="1"/>{}</g>',
                hue, words, y + 12, item.name, y + 12, ratio(item.value), one, one, y + 15, y + 29, pct(left), y + 18, pct(max(right - left, 0.3)), pct(middle), y + 15, prediction,
            )
        )  # fmt: skip
        rows.append(
            (
                item.name,
                f"{ratio(item.value)}×",
                ratio_range(item.low, item.high),
                ratio(item.predicted) if item.predicted is not None else "–",
                "yes" if item.low > 1 else "slower" if item.high < 1 else "not distinguishable",
            )
        )
    said = "Speedup over the reference: " + "; ".join(f"{row[0]} {row[1]} ({row[2]})" for row in rows)
    return Picture(
        "speedups", "Speedup over the reference", wrap(prefix, "speedups", height, said, *drawn),
        ("Program", "Speedup", "95 % interval", "Predicted at most", "Faster"), rows_of(rows),
    )  # fmt: skip
