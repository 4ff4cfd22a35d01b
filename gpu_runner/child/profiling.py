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

    `usage`: wall and processor nanoseconds of the same forwards without the profiler, for the parallel efficiency.
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
    rows, lost = _rows(profiler)
    return {
        "rows": rows,
        "lost": lost,
        "iterations": iterations,
        "usage": {"wall_ns": wall, "cpu_ns": busy, "threads": torch.get_num_threads()},
        "torch": torch.__version__,
    }


def _rows(profiler: Any) -> tuple[list[list[Any]], int]:
    handle, path = tempfile.mkstemp(suffix=".json")
    os.close(handle)
    try:
        profiler.export_chrome_trace(path)
        with open(path, encoding="utf-8") as file:
            trace = json.load(file)
    finally:
        os.unlink(path)
    rows = [
        [e["cat"], e["name"][:200], round(e["ts"] * 1000), round(e["dur"] * 1000), str(e.get("tid", ""))]
        for e in trace["traceEvents"]
        if e.get("ph") == "X" and e.get("cat") in _CATEGORIES
    ]
    rows.sort(key=lambda row: (row[2], -row[3]))
    first = rows[0][2] if rows else 0
    for row in rows:
        row[2] -= first
    return rows[:MAX_ROWS], max(0, len(rows) - MAX_ROWS)
