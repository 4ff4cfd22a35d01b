"""Before and after: two summaries of one program, kernel by kernel and operation by operation, per iteration. Pure functions.

Speedups do not come from here: a profiler slows small operations. Where one side lacks iterations its figures are of the whole
report, and `per_iteration` says so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

Summary = Mapping[str, Any]
_OWN = ("own", "compiled")


def compare(reference: Summary, candidate: Summary) -> dict[str, Any]:
    """`{per_iteration, kernels[], ops[], copies[], causes[], totals}`.

    A row of `kernels`: `key, short_name, origin, change (kept | gone | new), reference, candidate, delta_ns`, each side `{ns,
    launches, bytes, share_pct}` or null. Rows are in order of how much they changed.
    """
    kernels = _rows(_kernels(reference), _kernels(candidate))
    ops = _rows(_ops(reference), _ops(candidate))
    copies = _rows(_copies(reference), _copies(candidate))
    return {
        "per_iteration": all(s["target"].get("iterations") for s in (reference, candidate)),
        "kernels": kernels,
        "ops": ops,
        "copies": copies,
        "causes": _causes(reference, candidate),
        "totals": {"reference": _totals(reference), "candidate": _totals(candidate)},
        "gone": [row["key"] for row in kernels if row["change"] == "gone"],
        "new": [row["key"] for row in kernels if row["change"] == "new"],
    }


def _count(summary: Summary) -> int:
    return max(1, summary["target"].get("iterations") or 1)


def _kernels(summary: Summary) -> dict[str, dict[str, Any]]:
    """Variants of one kernel (other template arguments, another tool's spelling) are one row."""
    count = _count(summary)
    found: dict[str, dict[str, Any]] = {}
    for kernel in summary["kernels"]:
        counters = kernel.get("counters") or {}
        moved = counters.get("dram_bytes")
        slot = found.setdefault(
            kernel["key"],
            {
                "short_name": kernel["short_name"],
                "origin": kernel.get("origin", "unknown"),
                "ns": 0.0,
                "launches": 0.0,
                "bytes": 0.0,
                "share_pct": 0.0,
            },
        )
        slot["ns"] += kernel["total_ns"] / count
        slot["launches"] += kernel["count"] / count
        slot["share_pct"] = _plus(slot["share_pct"], kernel["share_pct"])
        slot["bytes"] = _plus(slot["bytes"], moved * kernel["count"] / count if moved is not None else None)
    return found


def _plus(one: float | None, two: float | None) -> float | None:
    """What is unknown makes the sum unknown."""
    return None if one is None or two is None else one + two


def _ops(summary: Summary) -> dict[str, dict[str, Any]]:
    count = _count(summary)
    return {
        op["name"]: {
            "short_name": op["name"].removeprefix("aten::"),
            "origin": "",
            "ns": op["gpu_ns"] / count,
            "launches": op["gpu_rows"] / count,
            "bytes": op["copy_bytes"] / count,
            "share_pct": None,
        }
        for op in summary.get("ops") or ()
    }


def _copies(summary: Summary) -> dict[str, dict[str, Any]]:
    count = _count(summary)
    return {
        copy["kind"]: {
            "short_name": copy["kind"],
            "origin": "",
            "ns": copy["time_ns"] / count,
            "launches": copy["count"] / count,
            "bytes": copy["bytes"] / count if copy["bytes"] is not None else None,
            "share_pct": None,
        }
        for copy in summary.get("copies") or ()
    }


def _rows(before: Mapping[str, dict[str, Any]], after: Mapping[str, dict[str, Any]]) -> list[dict[str, Any]]:
    rows = []
    for key in {**before, **after}:
        one, two = before.get(key), after.get(key)
        known = two or one or {}
        rows.append(
            {
                "key": key,
                "short_name": known["short_name"],
                "origin": known["origin"],
                "change": "kept" if one and two else "gone" if one else "new",
                "reference": _side(one),
                "candidate": _side(two),
                "delta_ns": (two["ns"] if two else 0.0) - (one["ns"] if one else 0.0),
            }
        )
    return sorted(rows, key=lambda row: (-abs(row["delta_ns"]), row["key"]))


def _side(values: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if values is None else {name: values[name] for name in ("ns", "launches", "bytes", "share_pct")}


def _causes(reference: Summary, candidate: Summary) -> list[dict[str, Any]]:
    """Idle time of the GPU by cause, beside its busy time; ns per iteration, null where a side has no GPU section."""
    sides = [_parts(reference), _parts(candidate)]
    if sides[0] is None and sides[1] is None:
        return []
    names = list(dict.fromkeys(name for side in sides if side for name in side))
    rows = []
    for name in names:
        one, two = (side.get(name) if side else None for side in sides)
        delta = two - one if one is not None and two is not None else None
        rows.append({"cause": name, "reference_ns": one, "candidate_ns": two, "delta_ns": delta})
    return rows


def _parts(summary: Summary) -> dict[str, float] | None:
    gpu, count = summary["gpu"], _count(summary)
    if gpu is None:
        return None
    other = gpu["busy_ns"] - gpu["kernel_busy_ns"] - gpu["copy_exposed_ns"]
    parts = {"kernels": gpu["kernel_busy_ns"], "copies": gpu["copy_exposed_ns"], "other": max(0, other)}
    return {name: ns / count for name, ns in {**parts, **gpu["idle_by_cause_ns"]}.items()}


def _totals(summary: Summary) -> dict[str, Any]:
    """Of an iteration: wall time under the profiler, time of kernels, launches, share of the kernels' time in its own."""
    count = _count(summary)
    by_origin: dict[str, int] = defaultdict(int)
    for kernel in summary["kernels"]:
        by_origin[kernel.get("origin", "unknown")] += kernel["total_ns"]
    whole = sum(by_origin.values())
    wall = summary["window"]["wall_ns"]
    own = sum(by_origin[name] for name in _OWN)
    return {
        "wall_ns": wall / count if wall else None,
        "kernel_ns": whole / count,
        "launches": sum(k["count"] for k in summary["kernels"]) / count,
        "own_share_pct": 100.0 * own / whole if whole else None,
        "by_origin_pct": {name: 100.0 * ns / whole for name, ns in by_origin.items()} if whole else {},
    }
