"""One profiled stretch of forwards, as compact rows. No claimed time comes from here: the profiler slows small operations."""

from __future__ import annotations

import json
import os
import resource
import tempfile
import time
from typing import Any

import torch

from . import own, tensors
from .arm import Arm, arithmetic

ITERATION = "stitchweb_iter"
MAX_ROWS = 20_000
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
    """Rows `[category, name, start_ns, duration_ns, thread]` of `iterations` forwards, and what the processor did unprofiled.

    `usage`: wall and processor nanoseconds of the same forwards without the profiler, for the parallel efficiency. `events`, on
    a GPU: the same rows and the calls between them as the trace's own events, with the arguments in _KEPT.
    """
    inputs = tensors.read(payload["inputs"], fd, arm.device)
    iterations = int(payload["iterations"])

    def forward() -> None:
        with arithmetic(arm.precision, arm.device):
            arm.model(*inputs)
        if arm.device != "cpu":
            torch.cuda.synchronize()

    forward()
    before, start = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter_ns()
    for _ in range(iterations):
        forward()
    wall = time.perf_counter_ns() - start
    after = resource.getrusage(resource.RUSAGE_SELF)
    busy = int((after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e9)
    activities = [torch.profiler.ProfilerActivity.CPU]
    if arm.device != "cpu":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    own.annotate(True)
    try:
        with torch.profiler.profile(activities=activities, acc_events=True) as profiler:
            for _ in range(iterations):
                with torch.profiler.record_function(ITERATION):
                    forward()
    finally:
        own.annotate(False)
    trace = _trace(profiler)
    rows, lost = _rows(trace)
    return {
        "rows": rows,
        "events": _events(trace) if arm.device != "cpu" else None,
        "lost": lost,
        "iterations": iterations,
        "usage": {"wall_ns": wall, "cpu_ns": busy, "threads": torch.get_num_threads()},
        "torch": torch.__version__,
    }


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
    rows = [[e["cat"], e["name"][:200], round(e["ts"] * 1000), round(e["dur"] * 1000), str(e.get("tid", ""))] for e in trace]
    rows.sort(key=lambda row: (row[2], -row[3]))
    first = rows[0][2] if rows else 0
    for row in rows:
        row[2] -= first
    return rows[:MAX_ROWS], max(0, len(rows) - MAX_ROWS)
