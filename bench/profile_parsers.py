"""How long reports take to be read, and how much memory: a trace of 35 MB, an SQLite export, pages of counters.

    python bench/profile_parsers.py [--mb 35] [--repeat 3]

The reports are made of rows as real ones have them, in names, arguments and counts; each is read in a process of its own, whose
largest resident set is what is printed. Budget: a trace of 35 MB in 3 s and 500 MB.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import multiprocessing
import random
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.report import show
from tests.gpu_runner.profile_files import SAMPLES, THREAD, event, nsys_file, trace

NAMES = [
    "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>, std::array<char*, 3ul> >(int, T, T)",
    "ampere_sgemm_128x64_tn",
    "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true>(cudnn::ops::nchw2nhwc_params_t<float>, float const*)",
    "void at::native::(anonymous namespace)::softmax_warp_forward<float, float, float, 10, false>(float*, float const*, int)",
]
OPS = ["aten::linear", "aten::addmm", "aten::matmul", "aten::softmax", "aten::native_layer_norm", "aten::add", "aten::view"]
EVERY = 20_000  # µs an iteration
KERNELS = 400  # an iteration


def forward(start: float, first: int, rng: random.Random) -> list[dict[str, Any]]:
    """One iteration: nested operations, launches, kernels, a flow pair for each, as torch 2.x writes them."""
    rows: list[dict[str, Any]] = [event("user_annotation", "stitchweb_iter", start, EVERY - 500, **{"External id": first})]
    at, gpu = start + 10.0, start + 40.0
    for n in range(KERNELS):
        corr = first + n
        ids = {"External id": corr, "correlation": corr}
        outer = rng.choice(OPS)
        dims = {"Input Dims": [[8, 512, 1024], [1024, 1024]], "Input type": ["float", "float"], "Ev Idx": corr}
        rows.append(event("cpu_op", outer, round(at, 3), 40.123, **{"External id": corr}, **dims))
        rows.append(event("cpu_op", rng.choice(OPS), round(at + 3.2, 3), 30.456, **{"External id": corr}, **dims))
        rows.append(event("cuda_runtime", "cudaLaunchKernel", round(at + 20, 3), 5.321, cbid=211, **ids))
        took = rng.uniform(3, 45)
        gpu = max(gpu, at + 27)
        shape = {
            "device": 0, "context": 1, "stream": 7, "queued": 0, "registers per thread": 32, "shared memory": 0,
            "blocks per SM": 1.9, "warps per SM": 7.7, "grid": [256, 1, 1], "block": [128, 1, 1],
            "est. achieved occupancy %": 12,
        }  # fmt: skip
        rows.append(event("kernel", rng.choice(NAMES), round(gpu, 3), round(took, 3), tid=7, **ids, **shape))
        flow = {"id": corr, "pid": 1, "tid": 1, "ts": at + 20, "cat": "ac2g", "name": "ac2g"}
        rows += [{"ph": "s", **flow}, {"ph": "f", "bp": "e", **flow, "tid": 7, "ts": gpu}]
        gpu += took
        at += 47.0
    return rows


def make_trace(path: Path, megabytes: float) -> None:
    """A trace of about this size."""
    rng = random.Random(1)
    events: list[dict[str, Any]] = []
    each = 0
    while not each or len(events) // len(forward(0, 1, rng)) * each < megabytes * 1e6:
        rows = forward(1000.0 + EVERY * (len(events) // 2800), 1 + len(events), rng)
        each = each or len(json.dumps(rows, indent=2))
        events += rows
    path.write_text(json.dumps(trace(events, baseTimeNanoseconds=10**18), indent=2))


def make_sqlite(path: Path, launches: int) -> None:
    """An export of this many launches: as many calls and kernels, and a range every 400."""
    tables: dict[str, list[dict[str, Any]]] = {
        "CUPTI_ACTIVITY_KIND_KERNEL": [],
        "CUPTI_ACTIVITY_KIND_RUNTIME": [],
        "NVTX_EVENTS": [],
    }
    for n in range(launches):
        t, process = 1_000_000 + 50_000 * n, THREAD & ~0xFFFFFF
        tables["CUPTI_ACTIVITY_KIND_RUNTIME"].append(
            {"start": t, "end": t + 5_000, "globalTid": THREAD, "correlationId": n + 1, "nameId": 2}
        )
        tables["CUPTI_ACTIVITY_KIND_KERNEL"].append(
            {"start": t + 8_000, "end": t + 38_000, "deviceId": 0, "streamId": 7, "globalPid": process, "correlationId": n + 1,
             "demangledName": 10 + n % 4, "gridX": 1, "gridY": 1, "gridZ": 1, "blockX": 128, "blockY": 1, "blockZ": 1}
        )  # fmt: skip
        if n % KERNELS == 0:
            span = {"start": t - 100, "end": t + 50_000 * KERNELS - 200}
            tables["NVTX_EVENTS"].append({**span, "eventType": 59, "text": "stitchweb_iter", "globalTid": THREAD})
    nsys_file(path, tables, strings={2: "cudaLaunchKernel_v7000", **{10 + n: name for n, name in enumerate(NAMES)}})


def make_counters(path: Path, launches: int) -> None:
    """The H200's raw page, its launches repeated."""
    lines = (SAMPLES / "ncu_raw.csv").read_text().splitlines()
    head = next(n for n, line in enumerate(lines) if line.startswith('"ID"'))
    rows = list(csv.reader(lines[head:]))
    with path.open("w", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        writer.writerows(rows[:2])
        for n in range(launches):
            writer.writerow([str(n), *rows[2 + n % 4][1:]])


def peak() -> float:
    """This process's largest resident set in MB. The kernel hands getrusage's down from the starter."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024 / 1e6


def read(path: Path, answer: Any) -> None:
    """(seconds, seconds of processor, largest resident set in MB, kernels), in this process alone."""
    from gpu_runner.profile import read_profile

    start, busy = time.perf_counter(), time.process_time()
    summary = read_profile([path])
    answer.put((time.perf_counter() - start, time.process_time() - busy, peak(), len(summary["kernels"])))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--mb", type=float, default=35)
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    table = []
    with TemporaryDirectory() as folder:
        here = Path(folder)
        make_trace(here / "trace.json", args.mb)
        (here / "trace.json.gz").write_bytes(gzip.compress((here / "trace.json").read_bytes(), 6))
        make_sqlite(here / "report.sqlite", int(args.mb * 4000))
        make_counters(here / "raw.csv", int(args.mb * 30))
        for path in sorted(here.iterdir()):
            found = []
            for _ in range(args.repeat):
                spawn = multiprocessing.get_context("spawn")
                answer = spawn.Queue()
                child = spawn.Process(target=read, args=(path, answer))
                child.start()
                found.append(answer.get(timeout=120))
                child.join()
            wall, busy = (sorted(f[n] for f in found) for n in (0, 1))
            size = f"{path.stat().st_size / 1e6:.1f} MB"
            middle = len(wall) // 2
            table.append(
                (path.name, size, f"{wall[middle]:.2f} s", f"{busy[middle]:.2f} s", f"{max(f[2] for f in found):.0f} MB")
            )
    show("Reading reports", ("report", "size", "wall, median", "processor, median", "memory"), table)


if __name__ == "__main__":
    main()
