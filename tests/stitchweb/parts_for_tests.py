"""What a told run is made of: a program, its kernels, a device, and the payloads of events."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from agents.blobs import MemoryBlobs
from agents.events import Event
from gpu_runner.contracts import DeviceInfo
from gpu_runner.profile.cpu import Work
from stitchweb.runs.demo.profiles import Call, summary

START = 1_796_000_000.0
REFERENCE = """import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        return F.gelu(self.norm(x))


def get_inputs():
    return [torch.randn(8, 512, 1024)]


def get_init_inputs():
    return [1024]
"""
MODEL_NEW = '''"""LayerNorm and GELU in one pass over each row."""
import ctypes
from pathlib import Path

import torch
import torch.nn as nn

_lib = ctypes.CDLL(str(Path(__file__).with_name("libkernels.so")))


class ModelNew(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        out = torch.empty_like(x)
        _lib.ln_gelu(x.data_ptr(), out.data_ptr(), x.numel() // x.shape[-1], x.shape[-1])
        return out
'''
KERNEL = """#include <cmath>
#include <cstdint>

// One row at a time: mean and variance in the first pass, the result in the second.
extern "C" void ln_gelu(const float* x, float* y, int64_t rows, int64_t n) {
    #pragma omp parallel for
    for (int64_t r = 0; r < rows; ++r) {
        const float* row = x + r * n;
        float sum = 0.f, sq = 0.f;
        for (int64_t i = 0; i < n; ++i) { sum += row[i]; sq += row[i] * row[i]; }
        const float mean = sum / n;
        const float rstd = 1.f / std::sqrt(sq / n - mean * mean + 1e-5f);
        for (int64_t i = 0; i < n; ++i) {
            const float v = (row[i] - mean) * rstd;
            y[r * n + i] = 0.5f * v * (1.f + std::erf(v * 0.70710678f));
        }
    }
}
"""
KERNEL_2 = KERNEL.replace("float sum = 0.f, sq = 0.f;", "float sum = 0.f, m2 = 0.f;").replace(
    "sum += row[i]; sq += row[i] * row[i]; }", "sum += row[i]; }"
).replace(
    "    const float rstd = 1.f / std::sqrt(sq / n - mean * mean + 1e-5f);",
    "    for (int64_t i = 0; i < n; ++i) { const float d = row[i] - mean; m2 += d * d; }\n"
    "        const float rstd = 1.f / std::sqrt(m2 / n + 1e-5f);",
)  # fmt: skip
LOG = """g++ -O3 -march=native -std=c++17 -fopenmp -shared -fPIC kernels/ln_gelu.cpp -o libkernels.so
kernels/ln_gelu.cpp:9:28: note: loop vectorized using 32 byte vectors
kernels/ln_gelu.cpp:14:34: note: not vectorized: <erf> has no vector form & "stays scalar"
"""
DEVICE = {
    "kind": "cpu", "name": "Xeon, 2 cores", "target": "cpu", "cores": 2, "memory_mib": 24576, "torch": "2.13.0",
    "compiler": "g++ 12.2.0", "bandwidth_bps": 21.4e9, "peak_flops": 118e9, "sandbox": "bubblewrap",
}  # fmt: skip


@dataclass
class Teller:
    """Numbers events as a run does."""

    blobs: MemoryBlobs = field(default_factory=MemoryBlobs)
    events: list[Event] = field(default_factory=list)
    at: float = START

    def tell(self, kind: str, payload: dict[str, Any], who: str = "system", after: float = 0.4) -> None:
        self.at += after
        self.events.append(Event(seq=len(self.events) + 1, kind=kind, at=round(self.at, 3), who=who, payload=payload))

    def put(self, text: str) -> dict[str, Any]:
        return self.blobs.put(text.encode()).model_dump()


def _arm(name: str, ms: float, spread: float = 0.02) -> dict[str, Any]:
    return {
        "arm": name, "median_ms": ms, "low_ms": ms * (1 - spread / 2), "high_ms": ms * (1 + spread / 2),
        "p10_ms": ms * (1 - spread), "p90_ms": ms * (1 + 2 * spread), "samples": 100,
        "rounds": [ms * (1 + spread * ((i % 3) - 1) / 3) for i in range(10)],
    }  # fmt: skip


def _over(ratio: float, spread: float = 0.03) -> dict[str, float]:
    return {"value": ratio, "low": ratio * (1 - spread), "high": ratio * (1 + spread)}


def quick_timing(ms: float, eager: float = 4.38, speed: str = "faster") -> dict[str, Any]:
    """The loop's own timing: eager alone as baseline."""
    return {
        "kind": "timing", "arms": [_arm("eager", eager), _arm("candidate", ms)], "baseline": "eager", "speed": speed,
        "over_eager": _over(eager / ms), "over_baseline": _over(eager / ms), "noise": 0.011, "floor_ms": 1.57,
        "protocol": "quick/4", "device": DEVICE, "seconds": 3.1, "facts": {"load_average": 0.4},
    }  # fmt: skip


def full_timing(ms: float, eager: float = 4.38, default: float = 3.02) -> dict[str, Any]:
    """The confirmation: every arm, a second process, an arm that failed."""
    return {
        "kind": "timing", "baseline": "default", "speed": "faster", "protocol": "strict/4", "noise": 0.009, "seconds": 14.2,
        "arms": [_arm("eager", eager), _arm("default", default), _arm("max-autotune", default * 1.04), _arm("candidate", ms)],
        "errors": {"reduce-overhead": "the same as default on a CPU, where there are no CUDA graphs"},
        "over_eager": _over(eager / ms, 0.02), "over_compile": _over(default / ms, 0.02), "over_baseline": _over(default / ms, 0.02),
        "floor_ms": 1.57, "second_process_ms": ms * 1.006, "device": DEVICE, "facts": {"load_average": 0.3, "outside_clock_gap_us": {"eager": 1.4, "candidate": 1.2}},
    }  # fmt: skip


def check_rows(failed: str = "") -> list[dict[str, Any]]:
    """A check matrix; the row named `failed` did not hold."""
    rows: list[dict[str, Any]] = [
        {
            "group": "declared",
            "name": f"draw {i}",
            "value": f"2.{i}e-7",
            "limit": "1e-4",
            "passed": True,
            "replay": {"name": f"draw {i}", "group": "declared", "seed": 1000 + i},
            "numbers": f"{i:016x}",
        }
        for i in range(1, 6)
    ]
    rows += [
        {"group": "structured", "name": "heavy-tailed, 100×", "value": "6.8e-7", "limit": "1e-4", "passed": True},
        {"group": "structured", "name": "piecewise constant", "value": "3.1e-7", "limit": "1e-4", "passed": True},
        {"group": "numerics", "name": "error ratio to fp64", "value": "0.9", "limit": "2.0", "passed": True},
        {"group": "numerics", "name": "NaN and Inf positions", "value": "equal", "limit": "equal", "passed": True},
        {"group": "state", "name": "same buffer, new data", "value": "2.2e-7", "limit": "1e-4", "passed": True},
        {"group": "state", "name": "inputs unchanged", "value": "0 B", "limit": "0 B", "passed": True},
        {"group": "honesty", "name": "null candidates refused", "value": "7", "limit": "7", "passed": True},
        {"group": "honesty", "name": "own share of time", "value": "98.7 %", "limit": "≥ 50 %", "passed": True},
        {"group": "reach", "name": "other batch size", "passed": None, "note": "the reference takes one size only"},
    ]
    for row in rows:
        if row["name"] == failed:
            row |= {"passed": False, "value": "3.1e-1"}
    return rows


def profile_report(role: str, parts: dict[str, tuple[int, str]], finding: str, coverage: float | None = None) -> str:
    """A ProfileReport as JSON. `parts`: op name to (ns, kernel name); the candidate's kernels are its own."""
    own = "own:" if role == "candidate" else ""
    calls = [Call(name, ns, (Call(own + kernel, int(ns * 0.97)),)) for name, (ns, kernel) in parts.items()]
    told, _ = summary(role, calls, DeviceInfo.model_validate(DEVICE), Work(62_914_560, 33_562_624))
    report = {"kind": "profile", "role": role, "status": "measured", "summary": told, "finding": finding, "coverage": coverage}
    return json.dumps(report)


def candidate(
    t: Teller, cid: str, title: str, *, parent: str | None, todo: str | None, kernel: str, status: str = "coded", **more: Any
) -> dict[str, Any]:
    """A CandidateView payload whose files lie in the teller's blobs."""
    files = {"model_new.py": t.put(MODEL_NEW), "kernels/ln_gelu.cpp": t.put(kernel)}
    return {"id": cid, "parent": parent, "todo": todo, "title": title, "files": files, "status": status, **more}


def status_line(status: str, doing: str, step: int, cid: str | None = None, **more: Any) -> dict[str, Any]:
    return {"status": status, "doing": doing, "step": step, "candidate": cid, **more}


def build_facts(t: Teller, ok: bool = True) -> dict[str, Any]:
    return {
        "ok": ok, "seconds": 1.8, "cached": False, "size": 16_384 if ok else 0, "log": t.put(LOG),
        "diagnostics": [] if ok else ["kernels/ln_gelu.cpp:12: error: 'rstd' was not declared in this scope"],
    }  # fmt: skip
