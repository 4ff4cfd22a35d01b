"""Host rows become a ProfileSummary v1: operations by their own time, the processor's use, and what bounds it on a CPU."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpu_runner.contracts import DeviceInfo
from gpu_runner.profile.judging import fact, verdict
from gpu_runner.profile.names import clean, short
from gpu_runner.profile.rows import OWN, Row, iterations, nest, walk
from gpu_runner.profile.system import SCHEMA
from gpu_runner.stats import median

MAX_KERNELS = 60
MAX_NODES = 4000
SMALL_OP_NS = 10_000
MANY_OPS = 20
MEMORY_SHARE = 0.6  # of the measured bandwidth
COMPUTE_SHARE = 0.6
LOW_EFFICIENCY = 0.5
UNSEEN = "(python and dispatch)"


@dataclass(frozen=True)
class Work:
    """What one forward must do, where it is known."""

    flops: int = 0
    bytes: int = 0


def summarise_host(
    role: str, answer: dict[str, Any], rows: list[Row], device: DeviceInfo | None, program_sha256: str, work: Work
) -> tuple[dict[str, Any], float | None]:
    """(summary without a verdict, coverage). Coverage: the share of the forwards inside the candidate's own functions.

    `answer`: `usage` {wall_ns, cpu_ns, threads} and `iterations` of unprofiled forwards, `lost` rows, the version of `torch`.
    """
    runs = iterations(nest(rows))
    wall = sum(run.duration for run in runs)
    count = max(1, len(runs))
    leaves, own_ns, ops = _by_name(runs)
    usage = _usage(answer)
    coverage = min(1.0, own_ns / wall) if wall else None
    measured, unknown = (
        {"status": "measured", "reason": ""},
        {"status": "unavailable", "reason": "the program was not run for it"},
    )
    summary = {
        "schema": SCHEMA,
        "source": {
            "tool": "torch_profiler",
            "tool_version": clean(str(answer.get("torch") or ""))[:40].replace("unnamed", ""),
            "format_version": "",
            "status": "measured" if runs else "unavailable",
            "reason": "" if runs else "the trace holds no measured forward",
            "warnings": [f"{answer['lost']} rows were left out"] if answer.get("lost") else [],
        },
        "target": {
            "role": role, "program_sha256": program_sha256, "iterations": len(runs), "forward_ns": usage["forward_ns"] or None,
            "flops": work.flops or None, "bytes": work.bytes or None,
        },
        "device": _device(device),
        "window": {"start_ns": 0, "end_ns": wall, "wall_ns": wall, "basis": "annotation"},
        "gpu": None,
        "cpu": {
            "cpu_time_ns": usage["cpu_ns"], "threads": usage["threads"], "parallel_eff_pct": usage["efficiency_pct"],
            "op_count": len(ops) // count, "median_op_ns": int(median(ops)) if ops else None,
        },
        "copies": [],
        "api": [],
        "kernels": _kernels(leaves, wall),
        "ops": [],
        "tree": {"name": "forward", "kind": "root", "value_ns": wall // count, "children": _merged(runs, count)},
        "timeline": None,
        "figures": {
            "gpu": {"status": "unavailable", "reason": "the trace holds no GPU events"},
            "kernels": measured,
            "counters": {"status": "unavailable", "reason": "a processor's counters are not read"},
            "cpu": measured if usage["efficiency_pct"] is not None else unknown,
            "ops": measured,
        },
    }  # fmt: skip
    return summary, coverage


def _device(device: DeviceInfo | None) -> dict[str, Any]:
    """The device in the schema's words; rates stay null where they were never measured."""
    if device is None:
        return {
            "kind": "cpu", "name": "", "cc": None, "cores": None, "mem_bandwidth_Bps": None, "peak_flops": {},
            "peaks_from": None, "driver": "", "runtime": "",
        }  # fmt: skip
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
    numbers = {k: usage.get(k) if isinstance(usage.get(k), int) else None for k in ("wall_ns", "cpu_ns", "threads")}
    wall, threads = numbers["wall_ns"] or 0, max(1, numbers["threads"] or 1)
    repeats = answer.get("iterations")
    efficiency = 100.0 * (numbers["cpu_ns"] or 0) / (wall * threads) if wall else None
    each = wall // repeats if isinstance(repeats, int) and repeats > 0 else 0
    return {**numbers, "threads": threads if wall else None, "efficiency_pct": efficiency, "forward_ns": each}


def _by_name(runs: list[Row]) -> tuple[dict[str, list[int]], int, list[int]]:
    """(self times by name, nanoseconds inside own functions, durations of top-level operations)."""
    leaves: dict[str, list[int]] = defaultdict(list)
    own, ops = 0, []
    for run in runs:
        ops += [child.duration for child in run.children]
        leaves[UNSEEN].append(run.self_ns)
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
            "name": clean(name.removeprefix(OWN)),
            "short_name": short(name.removeprefix(OWN)),
            "origin": "own" if name.startswith(OWN) else "torch" if name.startswith("aten::") else "unknown",
            "count": len(times),
            "total_ns": sum(times),
            "median_ns": int(median(times)),
            "min_ns": min(times),
            "max_ns": max(times),
            "share_pct": 100.0 * sum(times) / wall if wall else None,
            "counters": None,
        }
        for name, times in sorted(leaves.items(), key=lambda item: -sum(item[1]))[:MAX_KERNELS]
        if sum(times)
    ]
    return found


def _merged(runs: list[Row], count: int, room: list[int] | None = None) -> list[dict[str, Any]]:
    """The call tree of an average forward: same names under the same parent are one node. `room`: how many more nodes there may
    be, the largest first."""
    room = [MAX_NODES] if room is None else room
    groups: dict[str, list[Row]] = defaultdict(list)
    for run in runs:
        for child in run.children:
            groups[child.name].append(child)
    nodes: list[dict[str, Any]] = []
    for name, items in sorted(groups.items(), key=lambda item: -sum(row.duration for row in item[1]))[:MAX_KERNELS]:
        if room[0] <= 0:
            break
        room[0] -= 1
        nodes.append(
            {
                "name": clean(name.removeprefix(OWN)),
                "kind": "kernel" if name.startswith(OWN) else "python" if items[0].category == "python_function" else "op",
                "value_ns": sum(row.duration for row in items) // count,
                "children": _merged(items, count, room),
            }
        )
    return nodes


def cpu_verdicts(summary: Mapping[str, Any], coverage: float | None = None) -> list[dict[str, Any]]:
    """What bounds the program; the first rule that holds. Without unprofiled forwards only the operations are judged."""
    cpu, device, target = summary["cpu"], summary["device"], summary["target"]
    kernels = summary["kernels"]
    each = target.get("forward_ns") or 0
    if not kernels or not summary["window"]["wall_ns"] or (summary["figures"]["cpu"]["status"] == "measured" and not each):
        sentence = "The profile holds too little to say what bounds the program."
        return [verdict("system", "insufficient", sentence, confidence="low", suggestions=("longer",))]
    top = kernels[0]
    share = f"{top['short_name']} takes {top['share_pct']:.0f} % of the forward"
    if cpu["median_op_ns"] is not None and cpu["median_op_ns"] < SMALL_OP_NS and cpu["op_count"] >= MANY_OPS:
        evidence = [
            fact("median_op_ns", cpu["median_op_ns"], "ns", SMALL_OP_NS, "flame"),
            fact("op_count", cpu["op_count"], "", MANY_OPS, "flame"),
        ]
        sentence = f"Dispatch-bound: {cpu['op_count']} operations, median {cpu['median_op_ns'] / 1000:.1f} µs; fuse them."
        return [
            verdict(
                "system", "dispatch-bound", sentence, share=top["share_pct"], evidence=evidence, suggestions=("fuse", "host")
            )
        ]
    efficiency = cpu["parallel_eff_pct"]
    if efficiency is not None and (cpu["threads"] or 1) > 1 and efficiency < 100 * LOW_EFFICIENCY:
        evidence = [fact("parallel_eff_pct", efficiency, "%", 100 * LOW_EFFICIENCY)]
        sentence = f"Serial: only {efficiency:.0f} % of {cpu['threads']} threads is used; {share}."
        return [
            verdict("system", "host-bound", sentence, share=100 - efficiency, evidence=evidence, suggestions=("parallelise",))
        ]
    seconds = each / 1e9
    moved = (target.get("bytes") or 0) / seconds if seconds else 0.0
    rate = (target.get("flops") or 0) / seconds if seconds else 0.0
    peak, bandwidth = device["peak_flops"].get("float32"), device["mem_bandwidth_Bps"]
    if peak and rate >= COMPUTE_SHARE * peak:
        evidence = [fact("flop_rate", rate, "FLOP/s", COMPUTE_SHARE * peak, "roofline", "estimated")]
        sentence = f"Compute-bound: {share}."
        return [
            verdict("system", "compute-bound", sentence, share=top["share_pct"], evidence=evidence, suggestions=("algorithm",))
        ]
    if bandwidth and moved >= MEMORY_SHARE * bandwidth:
        evidence = [fact("bandwidth", moved, "B/s", MEMORY_SHARE * bandwidth, "roofline", "estimated")]
        sentence = f"Memory-bound: {moved / 1e9:.1f} GB/s of what must be moved; {share}."
        return [
            verdict("system", "memory-bound", sentence, share=top["share_pct"], evidence=evidence, suggestions=("fewer-bytes",))
        ]
    sentence = share
    if coverage is not None:
        sentence += f"; {coverage:.0%} is spent in its own kernels"
    if moved:
        sentence += f", {moved / 1e9:.1f} GB/s of the bytes that must move"
    return [
        verdict("system", "latency-bound", sentence + ".", share=top["share_pct"], confidence="low", suggestions=("vectorise",))
    ]
