"""A roofline: measured memory and arithmetic roofs of the device, reference and candidate as points, both axes logarithmic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from stitchweb.core.numbers import byte_rate, flop_rate, sig
from stitchweb.runs.charts.axis import LogAxis, pct


@dataclass(frozen=True)
class Point:
    """`intensity` in FLOP per byte, `rate` in FLOP/s."""

    name: str
    intensity: float
    rate: float
    candidate: bool = False


def _decades(axis: LogAxis) -> list[float]:
    first, last = round(math.log10(axis.low)), round(math.log10(axis.high))
    return [10.0**e for e in range(first, last + 1)]


def _whole(values: Sequence[float]) -> LogAxis:
    """An axis of whole decades around the values."""
    return LogAxis(10.0 ** math.floor(math.log10(min(values))), 10.0 ** (math.floor(math.log10(max(values) * 1.0001)) + 1))


def roofline(points: Sequence[Point], bandwidth_bps: float, peak_flops: float) -> SafeString:
    """Points need positive coordinates; others are left out. Rates in FLOP/s, bandwidth in bytes/s."""
    shown = [p for p in points if p.intensity > 0 and p.rate > 0]
    ridge = peak_flops / bandwidth_bps
    xs = _whole([ridge / 10, ridge * 4, *(p.intensity for p in shown)])
    ys = _whole([peak_flops, bandwidth_bps * xs.low, *(p.rate for p in shown)])

    def up(rate: float) -> str:
        return pct(100 - ys.at(rate))

    grid_x = format_html_join(
        "",
        '<line class="gr" x1="{0}" x2="{0}" y2="100%"/><text x="{0}" y="100%" dy="15" text-anchor="middle">{1}</text>',
        ((pct(xs.at(v)), f"{v:g}") for v in _decades(xs)),
    )
    grid_y = format_html_join(
        "",
        '<line class="gr" y1="{0}" y2="{0}" x2="100%"/><text y="{0}" dx="-6" dy="4" text-anchor="end">{1}</text>',
        ((up(v), sig(v / 1e9, 1)) for v in _decades(ys)),
    )
    start, knee = bandwidth_bps * xs.low, min(max(ridge, xs.low), xs.high)
    roofs = format_html(
        '<line class="roof" x1="0%" y1="{}" x2="{}" y2="{}"/><line class="roof" x1="{}" y1="{}" x2="100%" y2="{}"/>'
        '<text x="100%" y="{}" dy="-6" text-anchor="end">{}</text><text x="{}" y="{}" dx="-8" dy="-4" text-anchor="end">{}</text>',
        up(start), pct(xs.at(knee)), up(peak_flops), pct(xs.at(knee)), up(peak_flops), up(peak_flops), up(peak_flops),
        flop_rate(peak_flops), pct(xs.at(knee) * 0.62), up(bandwidth_bps * math.exp(math.log(xs.low) + 0.62 * math.log(knee / xs.low))),
        byte_rate(bandwidth_bps),
    )  # fmt: skip
    link = SafeString("")
    if len(shown) == 2:
        one, two = shown
        link = format_html(
            '<line class="lk" x1="{}" y1="{}" x2="{}" y2="{}"/>',
            pct(xs.at(one.intensity)), up(one.rate), pct(xs.at(two.intensity)), up(two.rate),
        )  # fmt: skip
    dots = format_html_join(
        "",
        '<circle class="pt{0}" cx="{1}" cy="{2}" r="{3}"/><text{4} x="{1}" y="{2}" dx="{6}" dy="13" text-anchor="{7}">{5}</text>',
        (
            (
                " a" if p.candidate else "", pct(xs.at(p.intensity)), up(p.rate), "5.5" if p.candidate else "4.5",
                SafeString(' class="acc"') if p.candidate else "", p.name,
                *(("-9", "end") if xs.at(p.intensity) > 70 else ("9", "start")),
            )
            for p in shown
        ),
    )  # fmt: skip
    said = "; ".join(f"{p.name} at {sig(p.intensity)} FLOP per byte and {flop_rate(p.rate)}" for p in shown)
    label = f"Roofline: {said or 'no point measured'}; memory roof {byte_rate(bandwidth_bps)}, arithmetic roof {flop_rate(peak_flops)}"
    return format_html(
        '<svg class="plot" role="img" aria-label="{}">{}{}{}{}{}<text x="100%" y="100%" dy="30" text-anchor="end">FLOP per byte</text>'
        '<text x="0" y="0" dx="-30" dy="-12">GFLOP/s</text></svg>',
        label, grid_x, grid_y, roofs, link, dots,
    )  # fmt: skip
