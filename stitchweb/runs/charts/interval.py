"""A ratio with its 95 % interval on a common axis: band, median, and a hollow dashed circle for a prediction."""

from __future__ import annotations

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from gpu_runner.contracts import Interval
from stitchweb.core.numbers import ratio
from stitchweb.runs.charts.axis import LogAxis, pct


def _label(value: Interval | None, predicted: float | None) -> str:
    parts = []
    if predicted is not None:
        parts.append(f"predicted {ratio(predicted)} times")
    if value is not None:
        parts.append(f"{ratio(value.value)} times, 95 percent interval {ratio(value.low)} to {ratio(value.high)}")
    return ", ".join(parts) or "not measured"


def interval(value: Interval | None, axis: LogAxis, *, predicted: float | None = None, mute: bool = False) -> SafeString:
    """The row mark of one ratio. `mute` greys it: not the best, or not distinguishable."""
    marks = [SafeString('<line class="iv-base" x2="100%" y1="8" y2="8"/>')]
    for tick in (t for t in (1.0, *axis.ticks()) if axis.low <= t <= axis.high):
        marks.append(format_html('<line class="iv-tick" x1="{0}" x2="{0}" y1="3" y2="13"/>', pct(axis.at(tick))))
    if value is not None:
        left, right = axis.at(value.low), axis.at(value.high)
        marks.append(
            format_html(
                '<rect class="iv-bar" x="{}" width="{}" y="4" height="8" rx="1"/>', pct(left), pct(max(right - left, 0.4))
            )
        )
        marks.append(format_html('<rect class="iv-mid" x="{}" width="2" height="14" y="1" rx="1"/>', pct(axis.at(value.value))))
    if predicted is not None:
        marks.append(format_html('<circle class="iv-pred" cx="{}" cy="8" r="3.5"/>', pct(axis.at(predicted))))
    return format_html(
        '<svg class="{}" role="img" aria-label="{}">{}</svg>',
        "iv mute" if mute else "iv",
        _label(value, predicted),
        format_html_join("", "{}", ((m,) for m in marks)),
    )


APART = 18.0  # per cent of the axis between two labels: the narrowest column is some 130 px wide


def _labelled(axis: LogAxis) -> list[float]:
    """The ticks whose labels do not touch, 1 before all others."""
    kept: list[float] = []
    for tick in sorted(axis.ticks(), key=lambda t: (t != 1.0, t)):
        if all(abs(axis.at(tick) - axis.at(other)) >= APART for other in kept):
            kept.append(tick)
    return sorted(kept)


def interval_axis(axis: LogAxis) -> SafeString:
    """The scale below or above interval marks: "1× 1.5× 2×"."""
    texts = format_html_join(
        "", '<text x="{}" y="11" text-anchor="middle">{}×</text>', ((pct(axis.at(t)), f"{t:g}") for t in _labelled(axis))
    )
    return format_html('<svg class="plot" height="14" aria-hidden="true">{}</svg>', texts)
