"""What a profile's verdicts say to people: a sentence, how sure it is, and evidence that leads to where it is seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gpu_runner.profile.advice import ADVICE
from stitchweb.core import numbers

MAX_VERDICTS = 12
METRICS = {
    "held_pct": "time that threads waited for a core",
    "few_blocks_pct": "time in kernels of too few blocks",
    "small_pct": "time outside of larger operations",
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
Place = Callable[[str, str], str]


@dataclass(frozen=True)
class Fact:
    """One row of evidence. `href` leads to the part of a picture where it is seen, empty where that is not on the page."""

    metric: str
    value: str
    threshold: str
    href: str
    estimated: bool


@dataclass(frozen=True)
class Finding:
    """One verdict. `at_most`: the ratio that the whole gains when its cause goes, None where it is unknown or nothing."""

    klass: str
    sentence: str
    confidence: str
    at_most: float | None
    facts: tuple[Fact, ...]
    advice: tuple[str, ...]


def findings(summary: Mapping[str, Any], place: Place) -> list[Finding]:
    """All verdicts, the weightiest first; with only `verdict` in the summary, that one.

    `place(shown_in, kernel)`: the address of a part of a picture, empty where the page has none.
    """
    every = summary.get("verdicts")
    found = [v for v in every if isinstance(v, Mapping)] if isinstance(every, list) else []
    main = summary.get("verdict")
    if not found and isinstance(main, Mapping):
        found = [main]
    return [_finding(verdict, place) for verdict in found[:MAX_VERDICTS]]


def _finding(verdict: Mapping[str, Any], place: Place) -> Finding:
    ceiling = verdict.get("ceiling")
    rows, suggested = verdict.get("evidence"), verdict.get("suggestions")
    kernel = str(verdict.get("kernel") or "")
    return Finding(
        str(verdict.get("class") or ""),
        str(verdict.get("sentence") or ""),
        str(verdict.get("confidence") or ""),
        float(ceiling) if isinstance(ceiling, int | float) and 1.005 <= ceiling < 1e6 else None,
        tuple(_fact(f, kernel, place) for f in rows if isinstance(f, Mapping) and f.get("metric"))
        if isinstance(rows, list)
        else (),
        tuple(ADVICE[s][1] for s in suggested if isinstance(s, str) and s in ADVICE) if isinstance(suggested, list) else (),
    )


def _fact(fact: Mapping[str, Any], kernel: str, place: Place) -> Fact:
    name, unit = str(fact["metric"]), str(fact.get("unit") or "")
    return Fact(
        METRICS.get(name, name.replace("_", " ")),
        _with_unit(fact.get("value"), unit),
        _with_unit(fact.get("threshold"), unit),
        place(str(fact.get("shown_in") or ""), kernel),
        fact.get("status") == "estimated",
    )


def _with_unit(value: Any, unit: str) -> str:
    """A reading in the page's own writing: 2.1e7 B/s is "21.0 MB/s"."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "" if value is None else str(value)
    if unit in _UNITS:
        return _UNITS[unit](value)
    return f"{numbers.sig(value)}{numbers.NBSP}{unit}" if unit else numbers.sig(value)
