"""Writes small reports of every generation that the readers know, for tests, the benchmark and the fuzzer."""

from __future__ import annotations

import gzip
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

SAMPLES = Path(__file__).resolve().parents[1] / "profile"
THREAD = 281492492125204  # of nsys: its process is THREAD & ~0xFFFFFF
PROCESS = THREAD & ~0xFFFFFF


def event(cat: str, name: str, ts: float, dur: float, tid: Any = 1, **args: Any) -> dict[str, Any]:
    """A complete event; microseconds. The process of a GPU's row is its device."""
    process = 0 if cat.lower() in ("kernel", "gpu_memcpy", "gpu_memset") else 4711
    return {"ph": "X", "cat": cat, "name": name, "pid": process, "tid": tid, "ts": ts, "dur": dur, "args": args}


def iteration(start: float, number: int, *, kernels: int = 3, gpu_us: float = 50, old: bool = False) -> list[dict[str, Any]]:
    """One forward of `kernels` operations of 30 µs on the host and `gpu_us` on the GPU, launched 20 µs in. `old`: the
    categories of 2021."""
    cats = (
        {"op": "Operator", "call": "Runtime", "gpu": "Kernel"}
        if old
        else {"op": "cpu_op", "call": "cuda_runtime", "gpu": "kernel"}
    )
    rows = []
    at = gpu = start
    for n in range(kernels):
        corr = 1 + number * kernels + n
        ids = {"correlation": corr, "External id": corr}
        rows.append(event(cats["op"], "aten::add", at, 30, **{"External id": 7000 + corr, "Input Dims": [[4, 4]]}))
        rows.append(event(cats["call"], "cudaLaunchKernel", at + 20, 5, **ids))
        gpu = max(gpu, at + 30)
        shape = {"grid": [8, 1, 1], "block": [128, 1, 1], "registers per thread": 32, "shared memory": 1024}
        rows.append(
            event(
                cats["gpu"],
                "void at::native::add<float>(float*)",
                gpu,
                gpu_us,
                tid="stream 7",
                device=0,
                stream=7,
                **ids,
                **shape,
            )
        )
        at, gpu = at + 30, gpu + gpu_us
    rows.append(event("user_annotation", "stitchweb_iter", start, gpu - start))
    return rows


def trace(events: list[Any], **more: Any) -> dict[str, Any]:
    """What torch.profiler writes around its events."""
    device = {"id": 0, "name": "NVIDIA H200", "numSms": 132, "computeMajor": 9, "computeMinor": 0, "totalGlobalMem": 1}
    return {"schemaVersion": 1, "deviceProperties": [device], "displayTimeUnit": "ms", "traceEvents": events, **more}


def busy_trace(iterations: int = 12, **options: Any) -> dict[str, Any]:
    """Forwards one after the other, 400 µs apart or as long as their operations take."""
    every = max(400, 30 * options.get("kernels", 3))
    return trace(
        [row for n in range(iterations) for row in iteration(1000 + every * n, n, **options)], baseTimeNanoseconds=10**18
    )


def write(path: Path, value: Any) -> Path:
    """As JSON; gzipped where the name says so."""
    text = value if isinstance(value, str) else json.dumps(value)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


_INTERVAL = "start INTEGER NOT NULL, end INTEGER NOT NULL"
_V3 = {
    "StringIds": "id INTEGER PRIMARY KEY, value TEXT NOT NULL",
    "CUPTI_ACTIVITY_KIND_KERNEL": f"{_INTERVAL}, deviceId INT, contextId INT, greenContextId INT, streamId INT,"
    " correlationId INT,"
    " globalPid INT, demangledName INT, shortName INT, registersPerThread INT, gridX INT, gridY INT, gridZ INT, blockX INT,"
    " blockY INT, blockZ INT, staticSharedMemory INT, dynamicSharedMemory INT",
    "CUPTI_ACTIVITY_KIND_MEMCPY": f"{_INTERVAL}, deviceId INT, streamId INT, correlationId INT, globalPid INT, bytes INT,"
    " copyKind INT, srcKind INT, dstKind INT",
    "CUPTI_ACTIVITY_KIND_RUNTIME": f"{_INTERVAL}, eventClass INT, globalTid INT, correlationId INT, nameId INT",
    "NVTX_EVENTS": f"{_INTERVAL}, eventType INT, text TEXT, globalTid INT, textId INT, domainId INT",
    "TARGET_INFO_GPU": "id INT, name TEXT, smCount INT, memoryBandwidth INT, computeMajor INT, computeMinor INT",
    "META_DATA_EXPORT": "name TEXT, value TEXT",
}
_V2 = {
    **{k: v for k, v in _V3.items() if k not in ("META_DATA_EXPORT", "TARGET_INFO_GPU")},
    "EXPORT_META_DATA": "name TEXT, value TEXT",
}


def nsys_file(
    path: Path, rows: dict[str, list[dict[str, Any]]], *, version: int = 3, strings: dict[int, str] | None = None
) -> Path:
    """A SQLite export that has the tables of `rows` alone, as nsys makes them lazily, beside its strings and its versions."""
    tables = _V3 if version == 3 else _V2
    meta = "META_DATA_EXPORT" if version == 3 else "EXPORT_META_DATA"
    numbers = {"EXPORT_SCHEMA_VERSION": "3.25.0" if version == 3 else "2.9.1", "EXPORT_PRODUCT_VERSION": "2025.3"}
    rows = {
        meta: [{"name": k, "value": v} for k, v in {**numbers, "EXPORT_HOST": "ada-laptop", "EXPORT_USER": "ada"}.items()],
        "StringIds": [{"id": k, "value": v} for k, v in (strings or STRINGS).items()],
        **rows,
    }
    with closing(sqlite3.connect(path)) as base, base:
        for table, items in rows.items():
            base.execute(f"create table {table} ({tables.get(table, 'severity INT, text TEXT')})")
            for item in items:
                marks = ", ".join("?" * len(item))
                base.execute(f"insert into {table} ({', '.join(item)}) values ({marks})", tuple(item.values()))
    return path


STRINGS = {
    1: "void my::kernel<(int)4>(float *)", 2: "cudaLaunchKernel_v7000", 3: "cudaMemcpyAsync_v3020_ptsz", 4: "step",
    5: "cudaStreamSynchronize_v3020",
}  # fmt: skip


def nsys_rows(iterations: int = 4) -> dict[str, list[dict[str, Any]]]:
    """Each 1 ms: a pageable H2D copy of 200 µs, then a kernel of 300 µs, then a synchronise and 300 µs of nothing."""
    kernels: list[dict[str, Any]] = []
    copies: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []
    marks: list[dict[str, Any]] = []
    for n in range(iterations):
        t = 1_000_000 * (n + 1)
        one, two = 10 + 3 * n, 11 + 3 * n
        common = {"deviceId": 0, "streamId": 7, "globalPid": PROCESS}
        marks.append({"start": t, "end": t + 1_000_000, "eventType": 59, "textId": 4, "globalTid": THREAD, "domainId": 0})
        calls += [
            {"start": t + 300_000, "end": t + 310_000, "globalTid": THREAD, "correlationId": one, "nameId": 3},
            {"start": t + 320_000, "end": t + 330_000, "globalTid": THREAD, "correlationId": two, "nameId": 2},
            {"start": t + 340_000, "end": t + 815_000, "globalTid": THREAD, "correlationId": two + 1, "nameId": 5},
        ]
        copies.append(
            {"start": t + 310_000, "end": t + 510_000, **common, "correlationId": one, "bytes": 1 << 20, "copyKind": 1,
             "srcKind": 0, "dstKind": 2}
        )  # fmt: skip
        kernels.append(
            {"start": t + 515_000, "end": t + 815_000, **common, "correlationId": two, "demangledName": 1, "shortName": 1,
             "gridX": 4, "gridY": 1, "gridZ": 1, "blockX": 128, "blockY": 1, "blockZ": 1, "registersPerThread": 40}
        )  # fmt: skip
    return {
        "CUPTI_ACTIVITY_KIND_KERNEL": kernels[::-1],  # newer versions promise no order
        "CUPTI_ACTIVITY_KIND_MEMCPY": copies,
        "CUPTI_ACTIVITY_KIND_RUNTIME": calls,
        "NVTX_EVENTS": marks,
    }
