"""Host rows become a ProfileSummary v1: operations by their own time, the processor's use, and what bounds it on a CPU."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from gpu_runner.contracts import DeviceInfo
from gpu_runner.profile.estimates import Work, peaks_of
from gpu_runner.profile.names import clean, short
from gpu_runner.profile.rows import OWN, Row, iterations, nest
from gpu_runner.profile.system import SCHEMA
from gpu_runner.stats import median

MAX_KERNELS = 60
MAX_NODES = 4000
SMALL_OP_NS = 10_000
UNSEEN = "(python and dispatch)"


def summarise_host(
    role: str, answer: dict[str, Any], rows: list[Row], device: DeviceInfo | None, program_sha256: str, work: Work
) -> tuple[dict[str, Any], float | None]:
    """(summary without a verdict, coverage). Coverage: the share of the forwards inside the candidate's own functions.

    `answer`: `usage` {wall_ns, cpu_ns, threads} and `iterations` of unprofiled forwards, `lost` rows, the version of `torch`.
    """
    runs = iterations(nest(rows))
    wall = sum(run.duration for run in runs)
    count = max(1, len(runs))
    leaves, own_ns, pieces = _by_name(runs, work)
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
            "flops": work.flops or None, "flop_dtype": work.dtype if work.flops else None, "bytes": work.bytes or None,
            "moved_bytes": work.moved,
        },
        "device": _device(device),
        "window": {"start_ns": 0, "end_ns": wall, "wall_ns": wall, "basis": "annotation"},
        "gpu": None,
        "cpu": {
            "cpu_time_ns": usage["cpu_ns"], "threads": usage["threads"], "parallel_eff_pct": usage["efficiency_pct"],
            "cores_used": usage["cores_used"], "held_pct": usage["held_pct"], "op_count": len(pieces) // count,
            "median_op_ns": int(median(pieces)) if pieces else None,
            "small_pct": _small_pct(pieces, wall),
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
        "peak_flops": peaks_of(device),
        "peaks_from": "measured" if device.bandwidth_bps else None,
        "driver": device.driver,
        "runtime": device.runtime,
    }


def _usage(answer: dict[str, Any]) -> dict[str, Any]:
    usage = answer.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    names = ("wall_ns", "cpu_ns", "threads", "waited_ns", "forward_ns")
    numbers = {k: usage.get(k) if isinstance(usage.get(k), int) else None for k in names}
    wall, threads = numbers["wall_ns"] or 0, max(1, numbers["threads"] or 1)
    repeats = answer.get("iterations")
    # Cores that others held while threads of ours were ready are not the program's to use.
    had = max(wall, wall * threads - min(numbers["waited_ns"] or 0, wall * (threads - 1)))
    efficiency = min(100.0, 100.0 * (numbers["cpu_ns"] or 0) / had) if wall else None
    each = wall // repeats if isinstance(repeats, int) and repeats > 0 else 0
    each = numbers["forward_ns"] or each
    return {
        **numbers, "threads": threads if wall else None, "efficiency_pct": efficiency, "forward_ns": each,
        "cores_used": efficiency * threads / 100.0 if efficiency is not None else None,
        "held_pct": min(100.0, 100.0 * (numbers["waited_ns"] or 0) / (wall * threads)) if wall else None,
    }  # fmt: skip


def _by_name(runs: list[Row], work: Work) -> tuple[dict[str, list[int]], int, list[int]]:
    """(self times by name, nanoseconds inside own functions, self times of the rows that work: operations that were counted
    and own functions, with what they call, and where nothing was counted every row)."""
    leaves: dict[str, list[int]] = defaultdict(list)
    own, pieces = 0, []
    for run in runs:
        leaves[UNSEEN].append(run.self_ns)
        stack = [(row, not work.done) for row in run.children]
        while stack:
            row, works = stack.pop()
            works = works or row.name in work.ops or row.name.startswith(OWN)
            stack += [(child, works) for child in row.children]
            leaves[row.name].append(row.self_ns)
            own += row.duration if row.name.startswith(OWN) else 0
            if works:
                pieces.append(row.self_ns)
    return leaves, own, pieces


def _small_pct(pieces: list[int], wall: int) -> float | None:
    """Per cent of the forwards outside of working rows that take SMALL_OP_NS or longer: calls, dispatch, Python."""
    return 100.0 * (1.0 - min(wall, sum(ns for ns in pieces if ns >= SMALL_OP_NS)) / wall) if wall else None


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
