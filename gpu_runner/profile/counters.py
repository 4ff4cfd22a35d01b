"""Launches of Nsight Compute become KernelCounters: shares of each unit's peak, occupancy, stalls, roofline.

Absent metrics are null. The formulas for rates and peaks are NVIDIA's own roofline section's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from gpu_runner.profile.names import key, short
from gpu_runner.profile.ncu import LaunchReport

STALLS = (
    "long_scoreboard", "short_scoreboard", "lg_throttle", "mio_throttle", "tex_throttle", "math_pipe_throttle", "barrier",
    "membar", "wait", "dispatch_stall", "drain", "imc_miss", "branch_resolving", "no_instruction", "sleeping", "misc",
    "not_selected",
    "selected", "gmma",
)  # fmt: skip
LIMITERS = {  # of equal ones the first is named: at the most warps that the hardware holds nothing limits
    "warps": "launch__occupancy_limit_warps",
    "registers": "launch__occupancy_limit_registers",
    "shared_mem": "launch__occupancy_limit_shared_mem",
    "blocks": "launch__occupancy_limit_blocks",
    "barriers": "launch__occupancy_limit_barriers",
}
_PCT = ".avg.pct_of_peak_sustained_elapsed"
_METRICS: dict[str, tuple[str, ...]] = {
    "duration_ns": ("gpu__time_duration.sum", "gpu__time_duration.avg"),
    "compute_sol_pct": (f"sm__throughput{_PCT}",),
    "memory_sol_pct": (f"gpu__compute_memory_throughput{_PCT}",),
    "dram_pct": (f"gpu__dram_throughput{_PCT}", f"dram__throughput{_PCT}"),
    "l2_pct": (f"lts__throughput{_PCT}",),
    "l1_pct": ("l1tex__throughput.avg.pct_of_peak_sustained_active",),
    "l1_hit_pct": ("l1tex__t_sector_hit_rate.pct",),
    "l2_hit_pct": ("lts__t_sector_hit_rate.pct",),
    "dram_rate_Bps": ("dram__bytes.sum.per_second",),
    "occupancy_pct": ("sm__warps_active.avg.pct_of_peak_sustained_active",),
    "occupancy_theoretical_pct": ("sm__maximum_warps_per_active_cycle_pct",),
    "waves": ("launch__waves_per_multiprocessor",),
    "issue_active": ("smsp__issue_active.avg.per_cycle_active",),
    "warp_latency": ("smsp__average_warp_latency_per_inst_issued.ratio",),
    "tensor_pct": (f"sm__pipe_tensor_cycles_active{_PCT}",),
    "bank_conflicts": ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",),
    "regs": ("launch__registers_per_thread",),
    "sm_count": ("launch__sm_count",),
    "block_size": ("launch__block_size",),
    "grid_size": ("launch__grid_size",),
    "smem_per_block": ("launch__shared_mem_per_block",),
    "threads_per_inst": ("smsp__thread_inst_executed_per_inst_executed.ratio",),
}
# The details page, over the years: the label of a metric and the unit of its row.
_LABELS: dict[str, tuple[tuple[str, str], ...]] = {
    "duration_ns": (("Duration", "ns"),),
    "compute_sol_pct": (("Compute (SM) Throughput", "%"), ("SM [%]", "%"), ("SOL SM", "%")),
    "memory_sol_pct": (("Memory Throughput", "%"), ("Memory [%]", "%"), ("SOL Memory", "%")),
    "dram_pct": (("DRAM Throughput", "%"), ("SOL DRAM", "%"), ("SOL FB", "%")),
    "l2_pct": (("L2 Cache Throughput", "%"), ("SOL L2 Cache", "%"), ("SOL L2", "%")),
    "l1_pct": (("L1/TEX Cache Throughput", "%"), ("SOL L1/TEX Cache", "%"), ("SOL TEX", "%")),
    "l1_hit_pct": (("L1/TEX Hit Rate", "%"), ("L1 Hit Rate", "%")),
    "l2_hit_pct": (("L2 Hit Rate", "%"),),
    "dram_rate_Bps": (("Memory Throughput", "byte/s"),),
    "occupancy_pct": (("Achieved Occupancy", "%"),),
    "occupancy_theoretical_pct": (("Theoretical Occupancy", "%"),),
    "waves": (("Waves Per SM", ""),),
    "issue_active": (("Issued Warp Per Scheduler", ""),),
    "warp_latency": (("Warp Cycles Per Issued Instruction", "cycle"),),
    "regs": (("Registers Per Thread", "register/thread"),),
    "sm_count": (("# SMs", "SM"),),
    "block_size": (("Block Size", ""),),
    "grid_size": (("Grid Size", ""),),
    "threads_per_inst": (("Avg. Active Threads Per Warp", ""),),
}
_LIMIT_LABELS = {
    "registers": "Block Limit Registers", "shared_mem": "Block Limit Shared Mem", "warps": "Block Limit Warps",
    "blocks": "Block Limit SM", "barriers": "Block Limit Barriers",
}  # fmt: skip
_WHOLE = {"duration_ns", "regs", "sm_count", "block_size", "grid_size", "bank_conflicts"}
_STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
_SASS = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum.per_cycle_elapsed"
_TENSOR = "sm__ops_path_tensor_op_"
_RAW = {name for names in _METRICS.values() for name in names} | {
    *LIMITERS.values(),
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
}


def counters(launches: Iterable[LaunchReport]) -> dict[str, dict[str, Any]]:
    """KernelCounters by full kernel name. Of several launches the one of median duration stands for all."""
    groups: dict[str, list[LaunchReport]] = defaultdict(list)
    for launch in launches:
        groups[launch.name].append(launch)
    found = {}
    for name, items in groups.items():
        items.sort(key=lambda item: _value(item, "duration_ns") or 0.0)
        chosen = items[(len(items) - 1) // 2]
        if any(launch.rules for launch in items) and not chosen.rules:
            chosen.rules = next(launch.rules for launch in items if launch.rules)
        found[name] = {**_one(chosen), "launches": len(items)}
    return found


def _value(launch: LaunchReport, what: str) -> float | None:
    for name in _METRICS.get(what, ()):
        if name in launch.metrics:
            return launch.metrics[name][0]
    for label in _LABELS.get(what, ()):
        if label in launch.labels:
            return launch.labels[label][0]
    return None


def _one(launch: LaunchReport) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for what in _METRICS:
        value = _value(launch, what)
        values[what] = round(value) if value is not None and what in _WHOLE else value
    read, write = (launch.metrics.get(f"dram__bytes_{way}.sum", (None, ""))[0] for way in ("read", "write"))
    values["dram_bytes"] = round(read + write) if read is not None and write is not None else None
    if values["dram_bytes"] is None and values["dram_rate_Bps"] and values["duration_ns"]:
        values["dram_bytes"] = round(values["dram_rate_Bps"] * values["duration_ns"] / 1e9)
    values["dram_peak_Bps"] = _product(launch, "dram__bytes.sum.peak_sustained", "dram__cycles_elapsed.avg.per_second")
    limits = _limits(launch)
    values["occupancy_limits"] = limits
    values["occupancy_limiter"] = min(limits, key=lambda name: limits[name]) if limits else None
    values["stalls"] = _stalls(launch, values["warp_latency"])
    values["memory_unit"] = _memory_unit(launch, values)
    values["coalescing_pct"] = _coalescing(launch)
    values |= _roofline(launch, values)
    values["rules"] = [asdict(rule) for rule in launch.rules]
    values["raw"] = {name: list(pair) for name, pair in launch.metrics.items() if name in _RAW or "issue_stalled" in name}
    values["grid"], values["block"], values["cc"] = launch.grid or None, launch.block or None, launch.cc or None
    return values


def _product(launch: LaunchReport, one: str, two: str) -> float | None:
    a, b = launch.metrics.get(one), launch.metrics.get(two)
    return a[0] * b[0] if a is not None and b is not None else None


def _limits(launch: LaunchReport) -> dict[str, int]:
    """Blocks per multiprocessor that each resource allows; the smallest limits."""
    found = {}
    for name, metric in LIMITERS.items():
        pair = launch.metrics.get(metric) or launch.labels.get((_LIMIT_LABELS[name], "block"))
        if pair is not None and pair[0] > 0:
            found[name] = round(pair[0])
    return found


def _stalls(launch: LaunchReport, latency: float | None) -> list[dict[str, Any]]:
    """Cycles a warp waits for each reason per issued instruction. They sum to the warp's latency, so shares are of that."""
    cycles = {reason: launch.metrics[name][0] for reason in STALLS if (name := _STALL.format(reason)) in launch.metrics}
    whole = latency or sum(cycles.values())
    rows: list[dict[str, Any]] = [
        {"reason": reason, "cycles": n, "share_pct": 100.0 * n / whole if whole else None}
        for reason, n in cycles.items()
        if n > 0
    ]
    return sorted(rows, key=lambda row: -row["cycles"])


def _memory_unit(launch: LaunchReport, values: dict[str, Any]) -> str | None:
    """DRAM, L2 or L1: which part of the memory system is nearest to its peak, by NVIDIA's breakdown where it is there."""
    breakdown = launch.texts.get(f"breakdown:gpu__compute_memory_throughput{_PCT}", "")
    units = {"dram": "DRAM", "lts": "L2", "l1tex": "L1"}
    best, unit = -1.0, None
    for name in (part.strip() for part in breakdown.split(",")):
        pair, prefix = launch.metrics.get(name), name.split("__")[0].removeprefix("gpu__")
        if pair is not None and pair[0] > best and prefix in units:
            best, unit = pair[0], units[prefix]
    if unit is None:
        shares = {"DRAM": values["dram_pct"], "L2": values["l2_pct"], "L1": values["l1_pct"]}
        there = {name: share for name, share in shares.items() if share is not None}
        unit = max(there, key=lambda name: there[name]) if there else None
    return unit


def _coalescing(launch: LaunchReport) -> float | None:
    """Bytes used of each sector that global loads fetch, in per cent."""
    name = "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld"
    used, most = launch.metrics.get(f"{name}.ratio"), launch.metrics.get(f"{name}.max_rate")
    return 100.0 * used[0] / most[0] if used is not None and most is not None and most[0] > 0 and used[0] > 0 else None


def _roofline(launch: LaunchReport, values: dict[str, Any]) -> dict[str, Any]:
    """FLOP/s by type with the peak of the type that does most, and FLOP per byte of device memory."""
    rates: dict[str, float] = {}
    peaks: dict[str, float] = {}
    clock = launch.metrics.get("smsp__cycles_elapsed.avg.per_second")
    for dtype, letter in (("float32", "f"), ("float64", "d"), ("float16", "h")):
        parts = [launch.metrics.get(_SASS.format(letter + op)) for op in ("add", "mul", "fma")]
        if clock is not None and any(parts):
            add, mul, fma = (part[0] if part else 0.0 for part in parts)
            rates[dtype] = (add + mul + 2 * fma) * clock[0]
        peak = _product(launch, f"sm__sass_thread_inst_executed_op_{letter}fma_pred_on.sum.peak_sustained", _SM_CLOCK)
        if peak:
            peaks[dtype] = 2 * peak
    for name, pair in launch.metrics.items():
        if name.startswith(_TENSOR) and name.endswith("_sparsity_off.sum.per_second") and pair[0] > 0:
            dtype = "tensor " + (name.split("_src_")[-1].split("_")[0] if "_src_" in name else "")
            rates[dtype] = rates.get(dtype, 0.0) + pair[0]
            peak_pair = launch.metrics.get(name.replace(".sum.per_second", ".sum.peak_sustained_elapsed.per_second"))
            if peak_pair is not None:
                peaks[dtype] = max(peaks.get(dtype, 0.0), peak_pair[0])
    seconds = (values["duration_ns"] or 0) / 1e9
    rates = {dtype: rate for dtype, rate in rates.items() if rate > 0}
    main = max(rates, key=lambda dtype: rates[dtype]) if rates else None
    total, traffic = sum(rates.values()), values["dram_rate_Bps"]
    if traffic is None and values["dram_bytes"] and seconds:
        traffic = values["dram_bytes"] / seconds
    peak_rate = peaks.get(main) if main else None
    return {
        "flops": {dtype: round(rate * seconds) for dtype, rate in rates.items()},
        "flop_rate": total or None,
        "flop_dtype": main,
        "flop_peak": peak_rate,
        "intensity": total / traffic if total and traffic else None,
        "ridge": peak_rate / values["dram_peak_Bps"] if peak_rate and values["dram_peak_Bps"] else None,
    }


_SM_CLOCK = "sm__cycles_elapsed.avg.per_second"


def kernels(found: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Kernel rows of a report that has counters alone. Times are of profiled launches, so there are no shares of a forward."""
    rows = [
        {
            "key": key(name), "name": name, "short_name": short(name), "origin": "unknown", "count": values["launches"],
            "total_ns": (values["duration_ns"] or 0) * values["launches"], "median_ns": values["duration_ns"], "min_ns": None,
            "max_ns": None, "share_pct": None, "counters": values,
        }
        for name, values in found.items()
    ]  # fmt: skip
    return sorted(rows, key=lambda row: -row["total_ns"])
