"""Rows become a ProfileSummary v1 with a verdict, and a sentence for people."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from gpu_runner.contracts import DeviceInfo
from gpu_runner.profile.rows import OWN, Row, iterations, nest, walk
from gpu_runner.stats import median

SCHEMA = "stitchweb.profile/1"
MAX_KERNELS = 60
SMALL_OP_NS = 10_000
MANY_OPS = 20
MEMORY_SHARE = 0.6  # of the measured bandwidth
COMPUTE_SHARE = 0.6
LOW_EFFICIENCY = 0.5


@dataclass(frozen=True)
class Work:
    """What one forward must do, where it is known."""

    flops: int = 0
    bytes: int = 0


def summarise(
    role: str, answer: dict[str, Any], rows: list[Row], device: DeviceInfo, program_sha256: str, work: Work
) -> tuple[dict[str, Any], str, float | None]:
    """(summary, sentence, coverage). Coverage is the share of the measured forwards inside the candidate's own functions."""
    runs = iterations(nest(rows))
    wall = sum(run.duration for run in runs)
    count = max(1, len(runs))
    leaves, own_ns, ops = _by_name(runs)
    usage = _usage(answer)
    kernels = _kernels(leaves, wall)
    coverage = min(1.0, own_ns / wall) if wall else None
    tree = {"name": "forward", "kind": "root", "value_ns": wall // count, "children": _merged(runs, count)}
    cpu = {
        "cpu_time_ns": usage["cpu_ns"],
        "threads": usage["threads"],
        "parallel_eff_pct": usage["efficiency_pct"],
        "op_count": len(ops) // count,
        "median_op_ns": int(median(ops)) if ops else None,
    }
    verdict, finding = _verdict(cpu, usage, kernels, device, work, coverage, role)
    summary = {
        "schema": SCHEMA,
        "source": {
            "tool": "torch_profiler",
            "tool_version": str(answer.get("torch", ""))[:40],
            "status": "measured" if runs else "unavailable",
            "reason": "" if runs else "the trace holds no measured forward",
            "warnings": [f"{answer['lost']} rows were left out"] if answer.get("lost") else [],
        },
        "target": {"role": role, "program_sha256": program_sha256, "iterations": len(runs)},
        "device": _device(device),
        "window": {"start_ns": 0, "end_ns": wall, "wall_ns": wall, "basis": "annotation"},
        "gpu": None,
        "cpu": cpu,
        "copies": [],
        "api": [],
        "kernels": kernels,
        "tree": tree,
        "verdict": verdict,
    }
    return summary, finding, coverage


def _device(device: DeviceInfo) -> dict[str, Any]:
    """The device in the schema's words; rates stay null where they were never measured."""
    gpu = device.kind == "gpu"
    return {
        "kind": device.kind,
        "name": device.name,
        "cc": device.target.removeprefix("sm_") if gpu else None,
        "cores": device.cores,
        "mem_bandwidth_Bps": device.bandwidth_bps,
        "peak_flops": {"float32": device.peak_flops} if device.peak_flops else {},
        "peaks_from": "measured" if device.bandwidth_bps else None,
        "driver": device.driver,
        "runtime": device.runtime,
    }


def _usage(answer: dict[str, Any]) -> dict[str, Any]:
    usage = answer.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    numbers = {k: usage.get(k) if isinstance(usage.get(k), int) else 0 for k in ("wall_ns", "cpu_ns", "threads")}
    wall, threads = numbers["wall_ns"] or 0, max(1, numbers["threads"] or 1)
    repeats = answer.get("iterations")
    efficiency = 100.0 * (numbers["cpu_ns"] or 0) / (wall * threads) if wall else None
    each = wall // repeats if isinstance(repeats, int) and repeats > 0 else 0
    return {**numbers, "threads": threads, "efficiency_pct": efficiency, "forward_ns": each}


def _by_name(runs: list[Row]) -> tuple[dict[str, list[int]], int, list[int]]:
    """(self times by name, nanoseconds inside own functions, durations of top-level operations)."""
    leaves: dict[str, list[int]] = defaultdict(list)
    own, ops = 0, []
    for run in runs:
        ops += [child.duration for child in run.children]
        leaves["(python and dispatch)"].append(run.self_ns)
        for row in walk(run):
            if row is run:
                continue
            leaves[row.name].append(row.self_ns)
            own += row.duration if row.name.startswith(OWN) else 0
    return leaves, own, ops


def _kernels(leaves: dict[str, list[int]], wall: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {
            "key": name.removeprefix(OWN),
            "name": name,
            "short_name": name.removeprefix(OWN).removeprefix("aten::"),
            "count": len(times),
            "total_ns": sum(times),
            "median_ns": int(median(times)),
            "min_ns": min(times),
            "max_ns": max(times),
            "share_pct": 100.0 * sum(times) / wall if wall else None,
            "counters": None,
        }
        for name, times in leaves.items()
        if sum(times)
    ]
    found.sort(key=lambda kernel: -kernel["total_ns"])
    return found[:MAX_KERNELS]


def _merged(runs: list[Row], count: int) -> list[dict[str, Any]]:
    """The call tree of an average forward: same names under the same parent are one node."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for run in runs:
        for child in run.children:
            groups[child.name].append(child)
    nodes: list[dict[str, Any]] = [
        {
            "name": name.removeprefix(OWN),
            "kind": "kernel" if name.startswith(OWN) else "op",
            "value_ns": sum(row.duration for row in items) // count,
            "children": _merged(items, count),
        }
        for name, items in groups.items()
    ]
    return sorted(nodes, key=lambda node: -node["value_ns"])[:MAX_KERNELS]


def _verdict(
    cpu: dict[str, Any],
    usage: dict[str, Any],
    kernels: list[dict[str, Any]],
    device: DeviceInfo,
    work: Work,
    coverage: float | None,
    role: str,
) -> tuple[dict[str, Any], str]:
    top = kernels[0] if kernels else None
    each = usage["forward_ns"]
    if top is None or not each:
        return _class("insufficient", None, "low", []), "The profile holds too little to say what bounds the program."
    share = f"{top['short_name']} takes {top['share_pct']:.0f} % of the forward"
    small = cpu["median_op_ns"] is not None and cpu["median_op_ns"] < SMALL_OP_NS and cpu["op_count"] >= MANY_OPS
    if small:
        evidence = [
            _fact("median_op_ns", cpu["median_op_ns"], "ns", SMALL_OP_NS),
            _fact("op_count", cpu["op_count"], "", MANY_OPS),
        ]
        text = f"Dispatch-bound: {cpu['op_count']} operations, median {cpu['median_op_ns'] / 1000:.1f} µs; fuse them."
        return _class("dispatch-bound", top["share_pct"], "medium", evidence, ["fuse", "host"]), text
    efficiency = usage["efficiency_pct"]
    if efficiency is not None and usage["threads"] > 1 and efficiency < 100 * LOW_EFFICIENCY:
        evidence = [_fact("parallel_eff_pct", efficiency, "%", 100 * LOW_EFFICIENCY)]
        text = f"Serial: only {efficiency:.0f} % of {usage['threads']} threads is used; {share}."
        return _class("host-bound", 100 - efficiency, "medium", evidence, ["parallelise"]), text
    bandwidth = work.bytes / (each / 1e9)
    rate = work.flops / (each / 1e9)
    if device.peak_flops and rate >= COMPUTE_SHARE * device.peak_flops:
        evidence = [_fact("flop_rate", rate, "FLOP/s", COMPUTE_SHARE * device.peak_flops)]
        return _class("compute-bound", top["share_pct"], "medium", evidence, ["algorithm"]), f"Compute-bound: {share}."
    if device.bandwidth_bps and bandwidth >= MEMORY_SHARE * device.bandwidth_bps:
        evidence = [_fact("bandwidth", bandwidth, "B/s", MEMORY_SHARE * device.bandwidth_bps)]
        text = f"Memory-bound: {bandwidth / 1e9:.1f} GB/s of what must be moved; {share}."
        return _class("memory-bound", top["share_pct"], "medium", evidence, ["fewer-bytes"]), text
    text = f"{share}"
    if role == "candidate" and coverage is not None:
        text += f"; {coverage:.0%} is spent in its own kernels"
    moved = f", {bandwidth / 1e9:.1f} GB/s of the bytes that must move" if work.bytes else ""
    return _class("latency-bound", top["share_pct"], "low", []), text + moved + "."


def _class(
    name: str, share: float | None, confidence: str, evidence: list[Any], suggestions: list[str] | None = None
) -> dict[str, Any]:
    ceiling = 1.0 / (1.0 - share / 100.0) if share is not None and share < 99.0 else None
    return {
        "scope": "system", "class": name, "share_pct": share, "ceiling": ceiling, "confidence": confidence,
        "evidence": evidence, "suggestions": suggestions or [],
    }  # fmt: skip


def _fact(metric: str, value: float, unit: str, threshold: float) -> dict[str, Any]:
    return {"metric": metric, "value": value, "unit": unit, "threshold": threshold}
