"""Profiles as the page shows them: one finding, evidence, two icicles on one scale, kernels, a roofline.

Summaries follow `stitchweb.profile/1`; every field may be null or missing, and then the page leaves out what rests on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stitchweb.core import numbers
from stitchweb.runs import charts

MAX_KERNELS = 12
_METRICS = {
    "median_op_ns": "median operation",
    "op_count": "operations per forward",
    "parallel_eff_pct": "threads busy",
    "flop_rate": "arithmetic rate",
    "bandwidth": "memory rate",
    "copy_exposed_pct": "time in copies alone",
    "pageable_copies": "copies of pageable memory",
    "idle_sync_pct": "GPU idle, host waited",
    "idle_host_pct": "GPU idle, host at work",
    "idle_uvm_pct": "GPU idle, unified memory",
    "uvm_overlap_pct": "largest kernel, unified memory moving",
    "idle_dependency_pct": "GPU idle, other stream",
    "kernels_per_iteration": "kernels per forward",
    "median_kernel_ns": "median kernel",
    "kernel_busy_pct": "time in kernels",
    "largest_kernel_pct": "largest kernel",
    "compute_sol_pct": "arithmetic, of its peak",
    "memory_sol_pct": "memory, of its peak",
    "tensor_pct": "tensor cores, of their peak",
    "coalescing_pct": "bytes used of each sector",
    "duration_ns": "duration",
    "waves": "waves of blocks",
    "occupancy_pct": "warps busy",
    "occupancy_theoretical_pct": "warps that fit",
    "stall_share_pct": "largest stall",
}
_UNITS = {"ns": lambda ns: numbers.duration(ns / 1e6), "FLOP/s": numbers.flop_rate, "B/s": numbers.byte_rate}


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _kernels(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    rows = [k for k in summary.get("kernels") or () if isinstance(k, Mapping)]
    rows.sort(key=lambda k: k.get("total_ns") or 0, reverse=True)
    return [
        {
            "name": str(k.get("short_name") or k.get("name") or k.get("key") or "unnamed"),
            "count": k.get("count"),
            "ms": (k.get("total_ns") or 0) / 1e6,
            "share": (k.get("share_pct") or 0) / 100 if k.get("share_pct") is not None else None,
            "dram": (_map(k.get("counters")).get("dram_pct") or 0) / 100 if _map(k.get("counters")).get("dram_pct") else None,
        }
        for k in rows[:MAX_KERNELS]
    ]


def _with_unit(value: Any, unit: str) -> str:
    """A reading in the page's own writing: 2.1e7 B/s is "21.0 MB/s"."""
    if not isinstance(value, int | float):
        return "" if value is None else str(value)
    if unit in _UNITS:
        return _UNITS[unit](value)
    return f"{numbers.sig(value)}{numbers.NBSP}{unit}" if unit else numbers.sig(value)


def _evidence(summary: Mapping[str, Any]) -> list[dict[str, str]]:
    rows = []
    for e in _map(summary.get("verdict")).get("evidence") or ():
        if isinstance(e, Mapping) and e.get("metric"):
            name, unit = str(e["metric"]), str(e.get("unit") or "")
            rows.append(
                {
                    "metric": _METRICS.get(name, name.replace("_", " ")),
                    "value": _with_unit(e.get("value"), unit),
                    "threshold": _with_unit(e.get("threshold"), unit),
                }
            )
    return rows


def _point(name: str, flops: float, moved: float, ms: float | None, candidate: bool) -> charts.Point | None:
    if not flops or not moved or not ms:
        return None
    return charts.Point(name, flops / moved, flops / (ms / 1e3), candidate)


def _roofline(ctx: dict[str, Any], summary: Mapping[str, Any]) -> dict[str, Any]:
    device = _map(summary.get("device"))
    bandwidth = device.get("mem_bandwidth_Bps")
    peaks = [v for v in _map(device.get("peak_flops")).values() if isinstance(v, int | float) and v > 0]
    flops, moved = ctx["analysis"] or (0, 0)
    points = [
        p
        for p in (
            _point("eager", flops, moved, ctx["reference_ms"], candidate=False),
            _point(ctx["cid"], flops, moved, ctx["median_ms"], candidate=True),
        )
        if p
    ]
    if not bandwidth or not peaks or not points:
        return {}
    return {
        "roofline": charts.roofline(points, float(bandwidth), float(max(peaks))),
        "roof_points": [{"name": p.name, "intensity": p.intensity, "rate": p.rate, "candidate": p.candidate} for p in points],
        "peaks_from": device.get("peaks_from") or "",
    }


def _side(name: str, report: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """One program's part of the panel, None where it was not profiled."""
    summary = _map(_map(report).get("summary"))
    if not summary:
        return None
    tree = _map(summary.get("tree"))
    return {
        "name": name,
        "total_ns": tree.get("value_ns") if isinstance(tree.get("value_ns"), int | float) else None,
        "tree": tree,
        "kernels": _kernels(summary),
        "tool": " ".join(
            str(v) for v in (_map(summary.get("source")).get("tool"), _map(summary.get("source")).get("tool_version")) if v
        ),
        "status": _map(report).get("status"),
    }


def profile_context(
    ctx: dict[str, Any], reference: Mapping[str, Any] | None, candidate: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The panel's context out of two ProfileReports as JSON."""
    sides = [s for s in (_side("eager", reference), _side(ctx["cid"], candidate)) if s]
    scale = max((s["total_ns"] or 0 for s in sides), default=0)
    for side in sides:
        total = side["total_ns"]
        side["icicle"] = ""
        if total:
            parts = ", ".join(
                f"{c.get('name')} {numbers.duration((c.get('value_ns') or 0) / 1e6)}"
                for c in [c for c in side["tree"].get("children") or () if isinstance(c, Mapping)][:8]
            )
            label = f"Where the time of {side['name']} goes: {parts or 'one part'}, {numbers.duration(total / 1e6)} in all"
            side["icicle"] = charts.icicle(side["tree"], label=label, scale_ns=scale)
    # What is said about a candidate comes from its own profile; the reference's stands beside it for comparison only.
    report = _map(reference if ctx["cid"] == "reference" else candidate)
    main = _map(report.get("summary"))
    verdict = _map(main.get("verdict"))
    return {
        "sides": sides,
        "klass": str(verdict.get("class") or ""),
        "confidence": str(verdict.get("confidence") or ""),
        "evidence": _evidence(main),
        "sentence": ctx["finding"] or str(report.get("finding") or ""),
        "profile_status": report.get("status"),
        "profile_reason": report.get("reason"),
        "coverage": report.get("coverage") if ctx["candidate"] else None,
        "cpu": _map(main.get("cpu")) if _map(main.get("device")).get("kind") == "cpu" else {},
        "own": bool(report),
        **_roofline(ctx, main or _map(_map(reference).get("summary"))),
    }
