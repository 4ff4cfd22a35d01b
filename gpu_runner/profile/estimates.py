"""Bytes and operations beside times: what each kind of operation must move and compute, put to the rows that did it.

From the shapes that the reference was seen with, so an estimate: of each operation its operands and its result once, its
arithmetic by torch's own formulas for products, and one operation an element of anything else (`child.counting`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gpu_runner.contracts import DeviceInfo
from gpu_runner.profile.rows import OWN, Row, iterations, nest, walk

STATUS = "estimated"
FLOAT32 = "float32"


@dataclass(frozen=True)
class OpWork:
    """All of one kind of operation in one forward. `ns`: what they took in all measured ones, with what they call; `dtype`: the
    type that most of the arithmetic is done in."""

    flops: int = 0
    bytes: int = 0
    ns: int = 0
    dtype: str = FLOAT32


@dataclass(frozen=True)
class Work:
    """What one forward must do, where it is known: inputs, parameters and results once (`bytes`), arithmetic (`flops`, most of
    it in `dtype`), and of the reference what its operations do one by one: `ops` by their own name, `done` by the name of the
    row that did it."""

    flops: int = 0
    bytes: int = 0
    ops: Mapping[str, OpWork] = field(default_factory=dict)
    done: Mapping[str, OpWork] = field(default_factory=dict)
    dtype: str = FLOAT32

    @property
    def moved(self) -> int | None:
        """Bytes of all operations together: what a program that fuses nothing moves. None where it is not known."""
        return sum(op.bytes for op in self.ops.values()) or None

    def done_by(self, rows: Iterable[Row]) -> Work:
        """With `done`: an operation is done by the row below it that has most time of its own, for all of the operation's."""
        inside: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        took: dict[str, int] = defaultdict(int)
        stack = [child for run in iterations(nest(rows)) for child in run.children]
        while stack:
            row = stack.pop()
            if row.name in self.ops:
                took[row.name] += row.duration
                for part in walk(row):
                    inside[row.name][part.name] += part.self_ns
            else:
                stack += row.children
        done: dict[str, OpWork] = {}
        for name, parts in inside.items():
            main, op = max(parts, key=lambda part: parts[part]), self.ops[name]
            before = done.get(main, OpWork())
            dtype = max(before, op, key=lambda part: part.flops).dtype
            done[main] = OpWork(before.flops + op.flops, before.bytes + op.bytes, before.ns + took[name], dtype)
        return replace(self, done=done)


def work_of(counts: Any, *, by_op: bool) -> Work:
    """The answer of `child.counting`, as far as it is one. `by_op`: for the program itself that was counted."""
    found = _mapping(counts)
    types = _mapping(found.get("dtypes"))
    ops = {
        str(name): OpWork(_number(op.get("arithmetic")), _number(op.get("bytes")), dtype=str(types.get(name) or FLOAT32)[:20])
        for name, op in _mapping(found.get("ops")).items()
        if isinstance(op, Mapping)
    }
    flops = sum(op.flops for op in ops.values()) or _number(found.get("flops"))
    main = max(ops.values(), key=lambda op: op.flops, default=OpWork())
    return Work(flops, _number(found.get("bytes")), ops if by_op else {}, dtype=main.dtype)


def peaks_of(device: DeviceInfo) -> dict[str, float]:
    """FLOP/s by type, as far as they were measured."""
    peaks = {FLOAT32: device.peak_flops, "float16": device.float16_flops, "bfloat16": device.bfloat16_flops}
    return {dtype: peak for dtype, peak in peaks.items() if peak}


def peak_of(device: Mapping[str, Any], dtype: str | None) -> tuple[str, float | None]:
    """(type, FLOP/s) of the ceiling that arithmetic in `dtype` lies under: float32's where its own was not measured."""
    peaks = device["peak_flops"]
    return (dtype, peaks[dtype]) if dtype in peaks and dtype is not None else (FLOAT32, peaks.get(FLOAT32))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62 else 0


def attach_to_operations(summary: dict[str, Any], done: Mapping[str, OpWork]) -> None:
    """On a processor: estimated counters of each operation, whose time is its share of an unprofiled forward."""
    count, wall = max(1, summary["target"]["iterations"] or 1), summary["window"]["wall_ns"]
    scale = summary["target"]["forward_ns"] / (wall / count) if wall and summary["target"]["forward_ns"] else 1.0
    for kernel in summary["kernels"]:
        if (op := done.get(kernel["key"])) is not None and not kernel["name"].startswith(OWN):
            kernel["counters"] = _counters(summary, op, scale * op.ns / count, kernel["count"] / count)
    _said(summary)


def attach_to_kernels(summary: dict[str, Any], work: Work) -> None:
    """On a GPU without pages of counters: estimated ones beside the largest kernel of each counted operation."""
    count = max(1, summary["target"]["iterations"] or 1)
    for kernel in summary["kernels"]:
        name = next((part for part in reversed(kernel.get("op_path") or ()) if part in work.ops), None)
        if kernel["counters"] is not None or name is None:
            continue
        beside = [k for k in summary["kernels"] if name in (k.get("op_path") or ())]
        if kernel is max(beside, key=lambda k: k["total_ns"]):
            kernel["counters"] = _counters(
                summary, work.ops[name], sum(k["total_ns"] for k in beside) / count, kernel["count"] / count
            )
    _said(summary)


def again(summary: dict[str, Any]) -> None:
    """The estimated shares of a summary, by its device's ceilings as they are now."""
    device = summary["device"]
    bandwidth = device["mem_bandwidth_Bps"]
    for kernel in summary["kernels"]:
        if (c := kernel["counters"]) and c.get("status") == STATUS:
            c["flop_dtype"], peak = peak_of(device, c["flop_dtype"])
            c["compute_sol_pct"], c["memory_sol_pct"] = (
                _share(c["flop_rate"] or 0.0, peak),
                _share(c["dram_rate_Bps"], bandwidth),
            )
            c["flop_peak"], c["ridge"] = peak, peak / bandwidth if peak and bandwidth else None


def roof(summary: Mapping[str, Any], cache_bytes: int | None) -> dict[str, Any] | None:
    """The least time of one forward under this device's measured ceilings, and how much of the unprofiled time that is.

    `cached`: what must move fits into the last cache, which is quicker than memory, so that memory's ceiling is none for it.
    None where a ceiling or a count is missing.
    """
    target, device = summary["target"], summary["device"]
    bandwidth, (_, peak) = device["mem_bandwidth_Bps"], peak_of(device, target.get("flop_dtype"))
    moved, flops, each = target.get("bytes"), target.get("flops"), target.get("forward_ns")
    if not (bandwidth and peak and moved and each) or device["peaks_from"] != "measured":
        return None
    memory, compute = 1e9 * moved / bandwidth, 1e9 * (flops or 0) / peak
    return {
        "bound": "memory" if memory >= compute else "compute",
        "least_ns": round(max(memory, compute)),
        "reached_pct": 100.0 * max(memory, compute) / each,
        "cached": cache_bytes is not None and moved < cache_bytes,
    }


def _said(summary: dict[str, Any]) -> None:
    figures = summary["figures"]
    if figures["counters"]["status"] != "measured" and any(k["counters"] for k in summary["kernels"]):
        why = "bytes and operations by their shapes, over measured times"
        if before := figures["counters"]["reason"]:
            why += f"; {before}"
        figures["counters"] = {"status": STATUS, "reason": why}


def _counters(summary: Mapping[str, Any], op: OpWork, ns: float, launches: float) -> dict[str, Any] | None:
    """KernelCounters as far as shapes and a time tell them. `ns` and `launches`: of one forward;
    `time_ns` is that of the whole operation, where other rows take part in it."""
    if ns <= 0 or not op.bytes:
        return None
    device = summary["device"]
    bandwidth, (dtype, peak) = device["mem_bandwidth_Bps"], peak_of(device, op.dtype)
    moved, rate = op.bytes / (ns / 1e9), op.flops / (ns / 1e9)
    return {
        "status": STATUS,
        "time_ns": round(ns),
        "compute_sol_pct": _share(rate, peak),
        "memory_sol_pct": _share(moved, bandwidth),
        "dram_bytes": round(op.bytes / max(1.0, launches)),
        "dram_rate_Bps": moved,
        "flop_rate": rate or None,
        "flop_dtype": dtype,
        "flop_peak": peak,
        "intensity": op.flops / op.bytes or None,
        "ridge": peak / bandwidth if peak and bandwidth else None,
    }


def _share(rate: float, ceiling: float | None) -> float | None:
    return 100.0 * rate / ceiling if ceiling else None
