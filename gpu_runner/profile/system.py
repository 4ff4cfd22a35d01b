"""A Trace becomes the system level of a ProfileSummary: GPU time, idle time by cause, kernels, copies, calls, tree."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from gpu_runner.profile import stacks, sweep, timeline
from gpu_runner.profile.calls import Calls, Interval, blocking, enqueues
from gpu_runner.profile.names import key, short
from gpu_runner.profile.origin import origin
from gpu_runner.profile.rows import OWN
from gpu_runner.profile.trace import GpuRow, Trace
from gpu_runner.profile.waits import union
from gpu_runner.stats import median

SCHEMA = "stitchweb.profile/1"
MAX_KERNELS = 60
MAX_CALLS = 40
MAX_OPS = 60
_GAP_BINS = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)


def summarise_gpu(trace: Trace, *, role: str = "reference", sha256: str = "") -> dict[str, Any]:
    """The summary of a trace that has GPU rows, without a verdict. Of several devices the busiest counts."""
    warnings = list(trace.warnings)
    device = _busiest(trace, warnings)
    own = [row for row in trace.gpu if row.device == device]
    calls = Calls(trace.calls, own)
    window = _window(trace, own, calls)
    rows = sweep.clip(own, window)
    count = max(1, len(trace.ranges))
    gaps = sweep.gaps(rows, window, calls)
    paths = stacks.paths(rows, calls, trace.host)
    times = [min(r.end, window[1]) - max(r.start, window[0]) for r in rows]
    wall = window[1] - window[0]
    gpu = _gpu(rows, times, window, gaps)
    if trace.basis == "first_to_last":
        warnings.append("no measured range: the whole report counts, with its start-up")
    return {
        "schema": SCHEMA,
        "source": {
            "tool": trace.tool, "tool_version": trace.tool_version, "format_version": trace.format_version,
            "status": "unavailable" if trace.missing else "measured", "reason": trace.missing, "warnings": warnings[:20],
            "events_lost": trace.lost,
        },
        "target": {"role": role, "program_sha256": sha256, "iterations": len(trace.ranges) or None},
        "device": _device(trace, device),
        "window": {"start_ns": 0, "end_ns": wall, "wall_ns": wall, "basis": trace.basis},
        "gpu": gpu,
        "cpu": None,
        "copies": _copies(rows, times, window),
        "api": _api(trace, window),
        "kernels": _kernels(rows, times, paths, calls, wall),
        "ops": _ops(rows, times, paths),
        "tree": stacks.tree(rows, times, paths, stacks.kinds(trace.host), count),
        "timeline": timeline.timeline(rows, gaps, trace, calls, window),
        "figures": _figures(trace),
    }  # fmt: skip


def _busiest(trace: Trace, warnings: list[str]) -> int:
    busy: Counter[int] = Counter()
    for row in trace.gpu:
        busy[row.device] += row.end - row.start if row.kind == "kernel" else 0
    if len(busy) > 1:
        warnings.append(f"{len(busy) - 1} more devices were used and are not summarised")
    return max(busy, key=lambda number: (busy[number], -number), default=0)


def _window(trace: Trace, rows: Sequence[GpuRow], calls: Calls) -> Interval:
    """From the first iteration's start to the last one's end, or to the end of the last row that was enqueued in one."""
    if not trace.ranges:
        edges = [(r.start, r.end) for r in rows] + [(c.start, c.end) for c in trace.calls if enqueues(c)]
        return (min(s for s, _ in edges), max(e for _, e in edges)) if edges else (0, 0)
    start, end = trace.ranges[0][0], max(e for _, e in trace.ranges)
    for row in rows:
        call = calls.of(row)
        if call is not None and start <= call.start < end and row.end > end:
            end = row.end
    return start, end


def _gpu(rows: Sequence[GpuRow], times: Sequence[int], window: Interval, gaps: Sequence[sweep.Gap]) -> dict[str, Any]:
    kernels = [r for r in rows if r.kind == "kernel"]
    kernel_times = [ns for r, ns in zip(rows, times, strict=True) if r.kind == "kernel"]
    busy = sweep.length(union(sweep.inside(rows, window)))
    causes = dict.fromkeys(sweep.CAUSES, 0)
    bins = [[limit, 0, 0] for limit in (*_GAP_BINS, 0)]
    sizes: Counter[int | None] = Counter()  # by the row that ends it: a gap may be in parts
    for gap in gaps:
        causes[gap.cause] += gap.end - gap.start
        sizes[gap.row] += gap.end - gap.start
    for size in sizes.values():
        slot = next((b for b in bins[:-1] if size < b[0]), bins[-1])
        slot[1] += 1
        slot[2] += size
    return {
        "busy_ns": busy,
        "kernel_busy_ns": sweep.length(union(sweep.inside(kernels, window))),
        "kernel_sum_ns": sum(kernel_times),
        "copy_exposed_ns": sweep.exposed(rows, window),
        "idle_ns": max(0, window[1] - window[0] - busy),
        "idle_by_cause_ns": causes,
        "gap_histogram": [{"lt_ns": limit or None, "count": n, "total_ns": ns} for limit, n, ns in bins],
        "kernel_count": len(kernels),
        "stream_count": len({r.stream for r in rows}),
        "median_kernel_ns": int(median(kernel_times)) if kernel_times else None,
        "uvm_overlap_pct": _uvm_overlap(rows, window),
    }


def _uvm_overlap(rows: Sequence[GpuRow], window: Interval) -> float | None:
    """Per cent of the largest kernel's time in which unified memory moves: it waits for its pages. None without such moves."""
    moves = union(sweep.inside([r for r in rows if r.copy.startswith("UVM")], window))
    spent: Counter[str] = Counter()
    for row in rows:
        spent[row.name] += row.end - row.start if row.kind == "kernel" else 0
    if not moves or not any(spent.values()):
        return None
    largest = spent.most_common(1)[0][0]
    kernel = union(sweep.inside([r for r in rows if r.kind == "kernel" and r.name == largest], window))
    both = sweep.length(moves) + sweep.length(kernel) - sweep.length(union(moves + kernel))
    return 100.0 * both / sweep.length(kernel) if kernel else None


def _copies(rows: Sequence[GpuRow], times: Sequence[int], window: Interval) -> list[dict[str, Any]]:
    groups: dict[str, list[tuple[GpuRow, int]]] = defaultdict(list)
    for row, ns in zip(rows, times, strict=True):
        if row.kind != "kernel":
            groups[row.copy or ("memset" if row.kind == "memset" else "unknown")].append((row, ns))
    kernels = [r for r in rows if r.kind == "kernel"]
    found = []
    for kind, items in groups.items():
        total = sum(ns for _, ns in items)
        sizes = [r.bytes for r, _ in items if r.bytes is not None]
        moved = sum(sizes) if len(sizes) == len(items) else None
        found.append(
            {
                "kind": kind,
                "count": len(items),
                "bytes": moved,
                "time_ns": total,
                "exposed_ns": sweep.exposed([*kernels, *(r for r, _ in items)], window) if kind != "memset" else None,
                "pageable_count": sum(r.pageable for r, _ in items),
                "rate_Bps": moved / (total / 1e9) if moved is not None and total else None,
            }
        )
    return sorted(found, key=lambda c: -c["time_ns"])


def _api(trace: Trace, window: Interval) -> list[dict[str, Any]]:
    groups: dict[str, list[int]] = defaultdict(list)
    waits: set[str] = set()
    for call in trace.calls:
        if window[0] <= call.start < window[1]:
            groups[call.name].append(call.end - call.start)
            if blocking(call):
                waits.add(call.name)
    found: list[dict[str, Any]] = [
        {"name": n, "count": len(t), "total_ns": sum(t), "median_ns": int(median(t)), "blocking": n in waits}
        for n, t in groups.items()
    ]
    return sorted(found, key=lambda c: -c["total_ns"])[:MAX_CALLS]


def _kernels(
    rows: Sequence[GpuRow], times: Sequence[int], paths: Sequence[stacks.Path], calls: Calls, wall: int
) -> list[dict[str, Any]]:
    groups: dict[str, list[int]] = defaultdict(list)
    found: list[dict[str, Any]] = []
    for number, row in enumerate(rows):
        if row.kind == "kernel":
            groups[row.name].append(number)
    largest = sorted(groups.items(), key=lambda item: -sum(times[n] for n in item[1]))
    for name, numbers in largest[:MAX_KERNELS]:
        spent = [times[n] for n in numbers]
        sent = [(rows[n], call) for n in numbers if (call := calls.of(rows[n])) is not None]
        launch = Counter(rows[n].launch for n in numbers if rows[n].launch).most_common(1)
        shape = launch[0][0] if launch else None
        path = Counter(paths[n] for n in numbers).most_common(1)[0][0]
        found.append(
            {
                "key": key(name),
                "name": name,
                "short_name": short(name),
                "origin": origin(name, path),
                "count": len(spent),
                "total_ns": sum(spent),
                "median_ns": int(median(spent)),
                "min_ns": min(spent),
                "max_ns": max(spent),
                "share_pct": 100.0 * sum(spent) / wall if wall else None,
                "grid": list(shape.grid) if shape and shape.grid else None,
                "block": list(shape.block) if shape and shape.block else None,
                "regs": shape.regs if shape else None,
                "smem_static": shape.smem_static if shape else None,
                "smem_dynamic": shape.smem_dynamic if shape else None,
                "est_occupancy_pct": shape.occupancy_pct if shape else None,
                "launch_api_median_ns": int(median([c.end - c.start for _, c in sent])) if sent else None,
                "queue_delay_median_ns": max(0, int(median([r.start - c.end for r, c in sent]))) if sent else None,
                "op_path": [p.removeprefix(OWN) for p in path[-8:]],
                "counters": None,
            }
        )
    return found


def _ops(rows: Sequence[GpuRow], times: Sequence[int], paths: Sequence[stacks.Path]) -> list[dict[str, Any]]:
    """GPU time by the innermost host operation."""
    groups: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for row, ns, path in zip(rows, times, paths, strict=True):
        name = path[-1] if path else "(no operation)"
        slot = groups[name]
        slot[0] += 1
        slot[1] += ns
        slot[2] += row.bytes or 0
    found: list[dict[str, Any]] = [
        {"name": name.removeprefix(OWN), "gpu_rows": n, "gpu_ns": ns, "copy_bytes": size}
        for name, (n, ns, size) in groups.items()
    ]
    return sorted(found, key=lambda op: -op["gpu_ns"])[:MAX_OPS]


def _device(trace: Trace, number: int) -> dict[str, Any]:
    known = trace.devices.get(number, {})
    bandwidth = known.get("mem_bandwidth_Bps")
    return {
        "kind": "gpu", "name": known.get("name") or "", "cc": known.get("cc"), "sm_count": known.get("sm_count"),
        "mem_bandwidth_Bps": bandwidth, "peak_flops": {}, "peaks_from": "report" if bandwidth else None,
        "driver": "", "runtime": "",
    }  # fmt: skip


def _figures(trace: Trace) -> dict[str, dict[str, str]]:
    """What each part of the summary rests on."""
    measured = {"status": "measured", "reason": ""}
    lost = {"status": "unavailable", "reason": trace.missing}
    return {
        "gpu": lost if trace.missing else measured,
        "kernels": lost if trace.missing else measured,
        "counters": {"status": "unavailable", "reason": "no report of Nsight Compute"},
        "cpu": {"status": "unavailable", "reason": "a report of the GPU does not measure the processor's use"},
        "ops": measured if trace.host else {"status": "unavailable", "reason": "the report holds no operations or ranges"},
    }
