"""The timing rows: per arm a whisker (95 %), a band (p10 to p90) and a dot (median) over one logarithmic axis.

What lies below the physical floor of the device is hatched: it cannot happen.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from gpu_runner.contracts import ArmTiming, TimingReport
from stitchweb.core.numbers import sig, time_unit
from stitchweb.runs.charts.axis import LogAxis, pct


@dataclass(frozen=True)
class TimingTrack:
    """One row. Times are already written in the table's `unit`; `svg` draws them. `error` is set where there is no number."""

    arm: str
    svg: SafeString
    median: str = ""
    low: str = ""
    high: str = ""
    error: str = ""


def _grid(axis: LogAxis, floor_ms: float | None) -> SafeString:
    grid = format_html_join("", '<line class="gr" x1="{0}" x2="{0}" y2="100%"/>', ((pct(axis.at(t)),) for t in axis.ticks()))
    if floor_ms is None:
        return grid
    edge = pct(axis.at(floor_ms))
    return format_html(
        '<rect class="hatched" width="{0}" height="100%"/>{1}<line class="floor" x1="{0}" x2="{0}" y2="100%"/>', edge, grid
    )


def _marks(arm: ArmTiming, axis: LogAxis, hue: str) -> SafeString:
    p10, p90, low, high, middle = (axis.at(v) for v in (arm.p10_ms, arm.p90_ms, arm.low_ms, arm.high_ms, arm.median_ms))
    return format_html(
        '<rect class="band{hue}" x="{p10}" width="{wide}" y="12" height="12" rx="2"/>'
        '<line class="ci{hue}" x1="{low}" x2="{high}" y1="18" y2="18"/>'
        '<line class="ci{hue}" x1="{low}" x2="{low}" y1="13.5" y2="22.5"/>'
        '<line class="ci{hue}" x1="{high}" x2="{high}" y1="13.5" y2="22.5"/>'
        '<circle class="dot{hue}" cx="{mid}" cy="18" r="3"/>',
        hue=hue, p10=pct(p10), wide=pct(max(p90 - p10, 0.3)), low=pct(low), high=pct(high), mid=pct(middle),
    )  # fmt: skip


def timing_tracks(report: TimingReport) -> tuple[list[TimingTrack], SafeString, SafeString, str]:
    """(rows, head, axis, unit) of a report: the candidate last, failed arms with their reason. `head` marks the floor."""
    numbers = [v for a in report.arms for v in (a.p10_ms, a.p90_ms, a.low_ms, a.high_ms)]
    axis = LogAxis.around([*numbers, report.floor_ms], margin=1.2, least=1.5)
    factor, unit = time_unit([a.median_ms for a in report.arms] + ([report.floor_ms] if report.floor_ms else []))
    grid = _grid(axis, report.floor_ms)
    rows = []
    for arm in sorted(report.arms, key=lambda a: a.arm == "candidate"):
        low, middle, high = (sig(v * factor) for v in (arm.low_ms, arm.median_ms, arm.high_ms))
        label = f"{arm.arm}: {middle} {unit}, {low} to {high}"
        svg = format_html(
            '<svg role="img" aria-label="{}">{}{}</svg>', label, grid, _marks(arm, axis, " a" if arm.arm == "candidate" else "")
        )
        rows.append(TimingTrack(arm.arm, svg, middle, low, high))
    blank = format_html('<svg aria-hidden="true">{}</svg>', grid)
    failed = [TimingTrack(arm, blank, error=reason) for arm, reason in report.errors.items()]
    at = next((i for i, row in enumerate(rows) if row.arm == "candidate"), len(rows))
    rows[at:at] = failed
    head = SafeString("")
    if report.floor_ms is not None:
        head = format_html(
            '<svg class="plot" height="24" aria-hidden="true"><text x="{}" y="16" dx="4" class="hi">floor {} {}</text></svg>',
            pct(axis.at(report.floor_ms)), sig(report.floor_ms * factor), unit,
        )  # fmt: skip
    ticks = format_html_join(
        "",
        '<line class="ax" x1="{0}" x2="{0}" y2="4"/><text x="{0}" y="16" text-anchor="middle">{1}</text>',
        ((pct(axis.at(t)), f"{sig(t * factor)} {unit}") for t in axis.ticks()),
    )
    scale = format_html('<svg class="plot" aria-hidden="true"><line class="ax" x2="100%"/>{}</svg>', ticks)
    return rows, head, scale, unit
