"""The roofline of kernels: numbered points under the device's own roofs, both axes logarithmic; before and after by an arrow."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString

from stitchweb.core.numbers import byte_rate, flop_rate, sig
from stitchweb.runs.charts.axis import LogAxis, pct
from stitchweb.runs.pictures.part import Picture, anchor, per_cent, positive, rows_of, wrap

HEIGHT = 250
MAX_POINTS = 9


@dataclass(frozen=True)
class Point:
    """`intensity` in FLOP per byte of device memory, `rate` in FLOP/s; `estimated` ones are hollow."""

    key: str
    name: str
    intensity: float
    rate: float
    share_pct: float | None = None
    dtype: str = ""
    estimated: bool = False


def points_of(summary: Mapping[str, Any]) -> list[Point]:
    """The kernels whose counters hold a rate and an intensity, the largest first."""
    found = []
    kernels = summary.get("kernels")
    for kernel in kernels if isinstance(kernels, list) else ():
        c = kernel.get("counters") if isinstance(kernel, Mapping) else None
        if isinstance(c, Mapping) and positive(c.get("intensity")) and positive(c.get("flop_rate")):
            found.append(
                Point(
                    str(kernel.get("key")), str(kernel.get("short_name") or kernel.get("key")), positive(c.get("intensity")),
                    positive(c.get("flop_rate")), positive(kernel.get("share_pct")) or None, str(c.get("flop_dtype") or ""),
                    c.get("status") == "estimated",
                )
            )  # fmt: skip
    return found[:MAX_POINTS] or _forward(summary)


def _forward(summary: Mapping[str, Any]) -> list[Point]:
    """Without counters: the whole forward, by what it must compute and move and by its unprofiled time. An estimate."""
    target = summary.get("target")
    target = target if isinstance(target, Mapping) else {}
    flops, moved, ns = (positive(target.get(key)) for key in ("flops", "bytes", "forward_ns"))
    if not (flops and moved and ns):
        return []
    name = "whole forward" + (f" of the {target['role']}" if target.get("role") in ("reference", "candidate") else "")
    return [Point("forward", name, flops / moved, flops / (ns / 1e9), None, str(target.get("flop_dtype") or ""), True)]


def _over(points: Sequence[Point], peaks: dict[str, float]) -> tuple[dict[str, float], str]:
    """(the roofs that some point lies under, the type whose roof stands for those without one of their own)."""
    common = "float32" if "float32" in peaks else max(peaks, key=lambda dtype: peaks[dtype])
    used = {point.dtype if point.dtype in peaks else common for point in points}
    return {dtype: peak for dtype, peak in peaks.items() if dtype in used}, common


def roofs_of(summary: Mapping[str, Any]) -> tuple[float, dict[str, float], str]:
    """(bytes/s, FLOP/s by type, where they come from). Measured ceilings of the device go before the report's clocked peaks."""
    device = summary.get("device")
    device = device if isinstance(device, Mapping) else {}
    peaks = {str(k): positive(v) for k, v in (device.get("peak_flops") or {}).items() if positive(v)}
    bandwidth, source = positive(device.get("mem_bandwidth_Bps")), str(device.get("peaks_from") or "")
    kernels = summary.get("kernels")
    for kernel in kernels if isinstance(kernels, list) else ():
        c = kernel.get("counters") if isinstance(kernel, Mapping) else None
        if not isinstance(c, Mapping):
            continue
        bandwidth = bandwidth or positive(c.get("dram_peak_Bps"))
        if (name := str(c.get("flop_dtype") or "")) and name not in peaks and positive(c.get("flop_peak")):
            peaks[name] = positive(c.get("flop_peak"))
            source = source or "report"
    return bandwidth, peaks, source


def _whole(values: Sequence[float]) -> LogAxis:
    return LogAxis(10.0 ** math.floor(math.log10(min(values))), 10.0 ** (math.floor(math.log10(max(values) * 1.0001)) + 1))


def _decades(axis: LogAxis) -> list[float]:
    return [10.0**e for e in range(round(math.log10(axis.low)), round(math.log10(axis.high)) + 1)]


def roof(
    summary: Mapping[str, Any], *, prefix: str, before: Mapping[str, Any] | None = None, points: Sequence[Point] = ()
) -> Picture | None:
    """Kernels of `summary` (or the given points); those of `before` with the same key are hollow, joined by an arrow. None
    without a roof or a point."""
    shown = list(points) or points_of(summary)
    bandwidth, peaks, source = roofs_of(summary)
    if not shown or not bandwidth or not peaks:
        return None
    earlier = {p.key: p for p in points_of(before)} if before is not None else {}
    every = [*shown, *(earlier[p.key] for p in shown if p.key in earlier)]
    peaks, common = _over(every, peaks)
    top = max(peaks.values())
    ridge = top / bandwidth
    xs = _whole([ridge / 8, ridge * 8, *(p.intensity for p in every)])
    ys = _whole([top, *(p.rate for p in every), bandwidth * ridge / 30])

    def up(rate: float) -> str:
        return pct(100 - ys.at(rate))

    grid = [
        format_html('<line class="gr" x1="{0}" x2="{0}" y2="100%"/><text x="{0}" y="100%" dy="15" text-anchor="{2}">{1}</text>', pct(xs.at(v)), f"{v:g}", "start" if v == xs.low else "end" if v == xs.high else "middle")
        for v in _decades(xs)
    ] + [
        format_html('<line class="gr" y1="{0}" y2="{0}" x2="100%"/><text class="in" x="4" y="{0}" dy="-4">{1}</text>', up(v), flop_rate(v))
        for v in _decades(ys)[1:-1]
    ]  # fmt: skip
    roofs: list[SafeString] = []
    start = max(xs.low, ys.low / bandwidth)
    roofs.append(
        format_html(
            '<line class="roof" x1="{}" y1="{}" x2="{}" y2="{}"/>',
            pct(xs.at(start)),
            up(bandwidth * start),
            pct(xs.at(ridge)),
            up(top),
        )
    )
    for name, peak in peaks.items():
        knee = peak / bandwidth
        roofs.append(
            format_html(
                '<line class="roof" x1="{0}" y1="{1}" x2="100%" y2="{1}"/><text class="hi" x="100%" y="{1}" dy="-6" text-anchor="end">{2}, {3}</text>',
                pct(xs.at(knee)), up(peak), name, flop_rate(peak),
            )
        )  # fmt: skip
    slope = math.sqrt(start * ridge)
    roofs.append(
        format_html(
            '<text class="hi halo" x="{}" y="{}" dx="-8" dy="-6" text-anchor="end">{}</text>',
            pct(xs.at(slope)),
            up(bandwidth * slope),
            byte_rate(bandwidth),
        )
    )
    drawn: list[SafeString] = []
    rows = []
    for n, point in enumerate(shown, 1):
        x, y = pct(xs.at(point.intensity)), up(point.rate)
        limit = min(peaks[point.dtype if point.dtype in peaks else common], bandwidth * point.intensity)
        old = earlier.get(point.key)
        if old is not None:
            ox, oy = pct(xs.at(old.intensity)), up(old.rate)
            drawn.append(
                format_html(
                    '<line class="move" x1="{}" y1="{}" x2="{}" y2="{}"/><circle class="was" cx="{}" cy="{}" r="5"/>',
                    ox,
                    oy,
                    x,
                    y,
                    ox,
                    oy,
                )
            )
        title = f"{n}. {point.name}: {flop_rate(point.rate)} at {sig(point.intensity)} FLOP per byte, {per_cent(100 * point.rate / limit, 0)} of the roof above it"
        drawn.append(
            format_html(
                '<g id="{}"><title>{}</title><circle class="pt{}" cx="{}" cy="{}" r="8.5"/><text class="pn" x="{}" y="{}" dy="3.5" text-anchor="middle">{}</text></g>',
                anchor(prefix, f"roofline:{point.key}"), title, " est" if point.estimated else "", x, y, x, y, n,
            )
        )  # fmt: skip
        rows.append(
            (
                f"{n}. {point.name}", flop_rate(point.rate), f"{sig(point.intensity)} FLOP/B", per_cent(100 * point.rate / limit, 0),
                ("estimated" if point.estimated else "measured") + (f", before {flop_rate(old.rate)}" if old is not None else ""),
            )
        )  # fmt: skip
    said = f"Roofline, memory {byte_rate(bandwidth)}: " + "; ".join(
        f"{row[0]} {row[1]} at {row[2]}, {row[3]} of its roof" for row in rows
    )
    words = {
        "measured": "roofs measured on this device",
        "report": "roofs from the report's clocks",
        "spec": "roofs from the data sheet",
    }
    return Picture(
        "roofline", "Roofline", wrap(prefix, "roofline", HEIGHT, said, *grid, *roofs, *drawn, css="roof-pic"),
        ("Kernel", "Rate", "Intensity", "Of its roof", "Status"), rows_of(rows),
        note="FLOP per byte of device memory to the right, FLOP/s upward, both logarithmic" + (f"; {words[source]}." if source in words else "."),
        is_open=True,
    )  # fmt: skip
