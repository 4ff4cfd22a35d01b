"""One profiled stretch of forwards, as compact rows. No claimed time comes from here: the profiler slows small operations."""

from __future__ import annotations

import contextlib
import glob
import itertools
import json
import os
import resource
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch

from . import own, tensors
from .arm import Arm, arithmetic

ITERATION = "stitchweb_iter"
MAX_ROWS = 40_000
LEAST, MOST, MOST_SHORT = 3, 20, 200  # forwards
SHORT_NS = 10_000_000  # which a range should last at least
EVENT_BYTES = 5 << 19  # of an answer's 8 MiB
_KEPT = (  # what the parent asks of a row of the GPU or a call
    "correlation", "device", "stream", "bytes", "grid", "block", "registers per thread", "shared memory",
    "est. achieved occupancy %",
)  # fmt: skip
_CATEGORIES = {
    "cpu_op",
    "user_annotation",
    "kernel",
    "gpu_memcpy",
    "gpu_memset",
    "cuda_runtime",
    "cuda_driver",
    "gpu_user_annotation",
}


def profile(arm: Arm, payload: dict[str, Any], fd: int) -> dict[str, Any]:
    """Rows `[category, name, start_ns, duration_ns, thread]` of some forwards, and what the processor did unprofiled.

    `iterations` says how many; without it as many as fill `budget_s` seconds, LEAST to MOST, and more of short ones. On a GPU
    they follow each other as they do in use, without a wait of ours between them. `usage`: wall, processor and waiting
    nanoseconds of the same forwards without the profiler, for the parallel efficiency, and the median of one. `events`, on a
    GPU: the same rows and the calls between them as the trace's own events, with the arguments in _KEPT.
    """
    forward, on_gpu = forward_of(arm, payload["inputs"], fd), arm.device != "cpu"
    activities = [torch.profiler.ProfilerActivity.CPU]
    if on_gpu:
        activities.append(torch.profiler.ProfilerActivity.CUDA)

    def rest() -> None:
        if on_gpu:
            torch.cuda.synchronize()

    forward()
    rest()
    start = time.perf_counter_ns()
    forward()
    rest()
    iterations = payload.get("iterations") or _count(time.perf_counter_ns() - start, payload["budget_s"])
    iterations = max(min(LEAST, iterations), min(iterations, MAX_ROWS // _rows_of(forward, activities, rest)))
    before, waited, times = resource.getrusage(resource.RUSAGE_SELF), _waited(), [time.perf_counter_ns()]
    for _ in range(iterations):
        forward()
        times.append(time.perf_counter_ns())
    rest()
    wall = time.perf_counter_ns() - times[0]
    after, waited = resource.getrusage(resource.RUSAGE_SELF), _waited() - waited
    busy = int((after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e9)
    own.annotate(True)
    try:
        with torch.profiler.profile(activities=activities, acc_events=True) as profiler:
            if on_gpu:
                forward()  # so that the first one that counts finds the device at work, as all others do
            for _ in range(iterations):
                with torch.profiler.record_function(ITERATION):
                    forward()
            rest()
    finally:
        own.annotate(False)
    trace = _trace(profiler)
    rows, lost = _rows(trace)
    return {
        "rows": rows,
        "events": _events(trace) if on_gpu else None,
        "lost": lost,
        "iterations": iterations,
        "usage": {
            "wall_ns": wall,
            "forward_ns": wall // iterations
            if on_gpu
            else sorted(b - a for a, b in itertools.pairwise(times))[iterations // 2],
            "cpu_ns": busy,
            "waited_ns": max(0, waited),
            "threads": torch.get_num_threads(),
        },
        "sm_count": torch.cuda.get_device_properties(0).multi_processor_count if on_gpu else None,
        "cache_bytes": torch.cuda.get_device_properties(0).L2_cache_size if on_gpu else None,
        "torch": torch.__version__,
    }


def forward_of(arm: Arm, manifest: dict[str, Any], fd: int) -> Callable[[], None]:
    """One forward of the program on these inputs, with nothing of ours around it."""
    inputs = tensors.read(manifest, fd, arm.device)

    def forward() -> None:
        with arithmetic(arm.precision, arm.device):
            arm.model(*inputs)

    return forward


def _count(call_ns: int, budget_s: float) -> int:
    """How many forwards tell something: a range of a millisecond says nothing, one of minutes no more than one of seconds."""
    fit = max(LEAST, min(MOST, int(budget_s * 1e9 / max(1, call_ns))))
    return max(fit, min(MOST_SHORT, int(SHORT_NS / max(1, call_ns))))


def _rows_of(forward: Callable[[], None], activities: list[Any], rest: Callable[[], None]) -> int:
    """How many rows one forward makes: a trace of more than are kept takes seconds to write for nothing. On a GPU this also is
    the first use of its profiler, which costs what later ones do not."""
    with torch.profiler.profile(activities=activities, acc_events=True) as profiler:
        forward()
        rest()
    return max(1, len(profiler.profiler.kineto_results.events()))


def _waited() -> int:
    """Nanoseconds that threads of this process were ready and had no core, for others were on it; 0 where nothing says so."""
    total = 0
    for path in glob.glob("/proc/self/task/*/schedstat"):
        with contextlib.suppress(OSError, ValueError, IndexError), open(path) as file:
            total += int(file.read().split()[1])
    return total


def _trace(profiler: Any) -> list[dict[str, Any]]:
    """The complete events of the kinds that are asked, in order of start."""
    handle, path = tempfile.mkstemp(suffix=".json")
    os.close(handle)
    try:
        profiler.export_chrome_trace(path)
        with open(path, encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
    finally:
        os.unlink(path)
    return sorted((e for e in events if e.get("ph") == "X" and e.get("cat") in _CATEGORIES), key=lambda e: (e["ts"], -e["dur"]))


def _events(trace: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The events with their times, thread and kept arguments, as many as fit; an iteration that does not fit is none."""
    first = trace[0]["ts"] if trace else 0
    kept, size = [], 0
    for e in trace:
        event = {
            **{key: e.get(key) for key in ("ph", "cat", "pid", "tid", "dur")},
            "name": e["name"][:1000],
            "ts": round(e["ts"] - first, 3),
            "args": {key: value for key, value in (e.get("args") or {}).items() if key in _KEPT},
        }
        size += len(json.dumps(event))
        if size > EVENT_BYTES or len(kept) >= MAX_ROWS:
            return [k for k in kept if k["name"] != ITERATION or k["ts"] + k["dur"] <= event["ts"]]
        kept.append(event)
    return kept


def _rows(trace: list[dict[str, Any]]) -> tuple[list[list[Any]], int]:
    """(the rows that fit, how many were left out); an iteration that does not fit is none."""
    rows = [[e["cat"], e["name"][:200], round(e["ts"] * 1000), round(e["dur"] * 1000), str(e.get("tid", ""))] for e in trace]
    rows.sort(key=lambda row: (row[2], -row[3]))
    first = rows[0][2] if rows else 0
    for row in rows:
        row[2] -= first
    kept, rest = rows[:MAX_ROWS], rows[MAX_ROWS:]
    if rest:
        kept = [row for row in kept if row[1] != ITERATION or row[2] + row[3] <= rest[0][2]]
    return kept, len(rest)
