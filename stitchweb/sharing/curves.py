"""fast_p of several engineers in one picture, on one axis: told apart by their lines, which the table beside it names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from stitchweb.runs.charts.axis import LogAxis, pct

LINES = ("a", "b", "c", "d")  # classes of static/css/sharing.css; more curves than these are not drawn
TICKS = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 10.0, 20.0)


@dataclass(frozen=True)
class Curve:
    """`lows`: the lower bounds of the ratios that count, `of` how many references there were."""

    name: str
    lows: Sequence[float]
    of: int


def fast_p_curves(curves: Sequence[Curve], label: str) -> SafeString:
    """Step curves from p = 1: the share of references whose ratio is significantly above p. `label` says the numbers."""
    shown = curves[: len(LINES)]
    top = max((low for c in shown for low in c.lows), default=1.0)
    axis = LogAxis(1.0, max(4.0, top * 1.1))
    # The last is drawn first, so that the first lies on top.
    pairs = list(zip(shown, LINES, strict=False))[::-1]
    lines = format_html_join("", "{}", ((_steps(curve, axis, line),) for curve, line in pairs))
    grid = format_html_join(
        "",
        '<line class="gr" y1="{0}" y2="{0}" x2="100%"/><text y="{0}" dx="-6" dy="4" text-anchor="end">{1}</text>',
        ((pct(100 - v), v) for v in (0, 20, 40, 60, 80, 100)),
    )
    ticks = format_html_join(
        "",
        '<text x="{}" y="100%" dy="16" text-anchor="middle">{}</text>',
        ((pct(axis.at(t)), f"{t:g}") for t in TICKS if t <= axis.high),
    )
    return format_html(
        '<svg class="plot" role="img" aria-label="{}">{}{}{}<text x="0" y="0" dx="-6" dy="-12" text-anchor="end">%</text>'
        '<text x="100%" y="100%" dy="32" text-anchor="end">p, times faster</text></svg>',
        label, grid, ticks, lines,
    )  # fmt: skip


def _steps(curve: Curve, axis: LogAxis, line: str) -> SafeString:
    counted = sorted(low for low in curve.lows if low > 1)
    corners = [(1.0, len(counted))] + [(low, len(counted) - i - 1) for i, low in enumerate(counted)]
    parts = []
    for (p, n), (after, _) in zip(corners, [*corners[1:], (axis.high, 0)], strict=True):
        y = pct(100 - 100 * n / curve.of if curve.of else 100)
        parts.append((pct(axis.at(p)), pct(axis.at(after)), y, y))
    for (_, n), (p, fewer) in pairwise(corners):
        x = pct(axis.at(p))
        parts.append((x, x, pct(100 - 100 * n / curve.of), pct(100 - 100 * fewer / curve.of)))
    drawn = format_html_join("", '<line x1="{}" x2="{}" y1="{}" y2="{}"/>', parts)
    return format_html('<g class="cur fp-{}">{}</g>', line, drawn)


def sample(line: str) -> SafeString:
    """The line of a legend."""
    return format_html(
        '<svg class="fp-key" aria-hidden="true"><g class="cur fp-{}"><line x1="0" x2="100%" y1="50%" y2="50%"/></g></svg>', line
    )
