"""The curve of fast_p over a suite: the share of programs that are verified and faster than p."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from stitchweb.runs.charts.axis import LogAxis, pct


def fast_p_curve(speedups: Sequence[float], of: int, label: str) -> SafeString:
    """`speedups` of the programs that count, `of` how many programs there are in all. A step curve from p = 1."""
    counted = sorted(s for s in speedups if s >= 1)
    axis = LogAxis(1.0, max(4.0, (counted[-1] if counted else 1.0) * 1.1))
    corners = [(1.0, len(counted))] + [(s, len(counted) - i - 1) for i, s in enumerate(counted)]
    steps = []
    for (p, n), (after, _) in zip(corners, [*corners[1:], (axis.high, 0)], strict=True):
        y = pct(100 - 100 * n / of if of else 100)
        steps.append(
            format_html('<line class="cur a" x1="{}" x2="{}" y1="{}" y2="{}"/>', pct(axis.at(p)), pct(axis.at(after)), y, y)
        )
    for (_, n), (p, fewer) in pairwise(corners):
        x, top, low = pct(axis.at(p)), pct(100 - 100 * n / of), pct(100 - 100 * fewer / of)
        steps.append(format_html('<line class="cur a" x1="{}" x2="{}" y1="{}" y2="{}"/>', x, x, top, low))
    grid = format_html_join(
        "",
        '<line class="gr" y1="{0}" y2="{0}" x2="100%"/><text y="{0}" dx="-6" dy="4" text-anchor="end">{1}</text>',
        ((pct(100 - v), v) for v in (0, 20, 40, 60, 80, 100)),
    )
    ticks = format_html_join(
        "",
        '<text x="{}" y="100%" dy="16" text-anchor="middle">{}</text>',
        ((pct(axis.at(t)), f"{t:g}") for t in (1.0, 1.5, 2.0, 3.0, 4.0)),
    )
    return format_html(
        '<svg class="plot" role="img" aria-label="{}">{}{}{}<text x="0" y="0" dx="-6" dy="-12" text-anchor="end">%</text>'
        '<text x="100%" y="100%" dy="32" text-anchor="end">p, times faster</text></svg>',
        label, grid, ticks, format_html_join("", "{}", ((s,) for s in steps)),
    )  # fmt: skip
