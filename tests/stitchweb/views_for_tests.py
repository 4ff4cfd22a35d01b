"""A run told in events, for page tests and screenshots: every panel filled, every kind of verdict, numbers that agree.

`story()` gives the events in order and the blobs they name. Fold any prefix of them to see the page at that moment.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from agents.blobs import MemoryBlobs
from agents.events import Event, View
from agents.events.folding import fold_all
from gpu_runner.contracts import BlobRef

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
        "protocol": "quick/1", "device": DEVICE, "seconds": 3.1, "facts": {"load_1min": 0.4},
    }  # fmt: skip


def full_timing(ms: float, eager: float = 4.38, default: float = 3.02) -> dict[str, Any]:
    """The confirmation: every arm, a second process, an arm that failed."""
    return {
        "kind": "timing", "baseline": "default", "speed": "faster", "protocol": "strict/1", "noise": 0.009, "seconds": 14.2,
        "arms": [_arm("eager", eager), _arm("default", default), _arm("max-autotune", default * 1.04), _arm("candidate", ms)],
        "errors": {"reduce-overhead": "the same as default on a CPU, where there are no CUDA graphs"},
        "over_eager": _over(eager / ms, 0.02), "over_compile": _over(default / ms, 0.02), "over_baseline": _over(default / ms, 0.02),
        "floor_ms": 1.57, "second_process_ms": ms * 1.006, "device": DEVICE, "facts": {"load_1min": 0.3, "pinned": True},
    }  # fmt: skip


def check_rows(failed: str = "") -> list[dict[str, Any]]:
    """A check matrix; the row named `failed` did not hold."""
    rows: list[dict[str, Any]] = [
        {"group": "declared", "name": f"draw {i}", "value": f"2.{i}e-7", "limit": "1e-4", "passed": True, "seed": 1000 + i}
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


def _tree(total: int, parts: dict[str, tuple[int, str]]) -> dict[str, Any]:
    return {
        "name": "forward", "kind": "root", "value_ns": total,
        "children": [{"name": n, "kind": "op", "value_ns": v, "children": [{"name": k, "kind": "kernel", "value_ns": int(v * 0.97), "children": []}]}
                     for n, (v, k) in parts.items()],
    }  # fmt: skip


def profile_report(role: str, parts: dict[str, tuple[int, str]], finding: str, coverage: float | None = None) -> str:
    """A ProfileReport as JSON. `parts`: op name to (ns, kernel name)."""
    total = sum(v for v, _ in parts.values()) + 40_000
    kernels = [
        {"key": k, "name": k, "short_name": k, "count": 1, "total_ns": v, "median_ns": v, "share_pct": 100 * v / total}
        for v, k in parts.values()
    ]
    summary = {
        "schema": "stitchweb.profile/1", "source": {"tool": "torch_profiler", "tool_version": "2.13.0", "status": "measured"},
        "device": {"kind": "cpu", "name": "Xeon", "cores": 2, "mem_bandwidth_Bps": 21.4e9, "peak_flops": {"float32": 118e9},
                   "peaks_from": "measured"},
        "kernels": kernels, "tree": _tree(total, parts), "cpu": {"threads": 2, "parallel_eff_pct": 93.0},
        "verdict": {"class": "memory-bound", "confidence": "high", "share_pct": 84.1,
                    "evidence": [{"metric": "memory_rate", "value": 18.1, "unit": "GB/s", "threshold": 21.4},
                                 {"metric": "intensity", "value": 1.35, "unit": "FLOP/B"}]},
    }  # fmt: skip
    report = {
        "kind": "profile",
        "role": role,
        "status": "measured",
        "summary": summary,
        "finding": finding,
        "coverage": coverage,
    }
    return json.dumps(report)


def candidate(
    t: Teller, cid: str, title: str, *, parent: str | None, todo: str | None, kernel: str, status: str = "coded", **more: Any
) -> dict[str, Any]:
    """A CandidateView payload whose files lie in the teller's blobs."""
    files = {"model_new.py": t.put(MODEL_NEW), "kernels/ln_gelu.cpp": t.put(kernel)}
    return {"id": cid, "parent": parent, "todo": todo, "title": title, "files": files, "status": status, **more}


def _line(status: str, doing: str, step: int, cid: str | None = None, **more: Any) -> dict[str, Any]:
    return {"status": status, "doing": doing, "step": step, "candidate": cid, **more}


def _live(t: Teller, cid: str, base: dict[str, Any], step: int) -> None:
    """Build, check and time a candidate, with all the progress that a watcher sees on the way."""
    t.tell("run.status", _line("building", f"Building {cid}", step, cid))
    t.tell("candidate.changed", base | {"status": "building"}, "engineer")
    t.tell("log.lines", {"stream": "build", "text": LOG}, "runner")
    t.tell("run.status", _line("checking", f"Checking {cid}", step + 1, cid), after=1.2)
    t.tell("candidate.changed", base | {"status": "checking", "build": build_facts(t)}, "runner")
    for row in check_rows()[:6]:
        t.tell("check.row", {"candidate": cid, "row": row}, "runner", after=0.1)


def build_facts(t: Teller, ok: bool = True) -> dict[str, Any]:
    return {
        "ok": ok, "seconds": 1.8, "cached": False, "size": 16_384 if ok else 0, "log": t.put(LOG),
        "diagnostics": [] if ok else ["kernels/ln_gelu.cpp:12: error: 'rstd' was not declared in this scope"],
    }  # fmt: skip


def _passed(t: Teller, base: dict[str, Any], ms: float, **more: Any) -> dict[str, Any]:
    return base | {
        "status": "done", "verdict": "verified", "labels": ["full-precision"], "build": build_facts(t),
        "check": {"passed": 13, "failed": 0, "not_run": 1, "error_ratio": 0.9, "signal_error": 2.9e-7, "coverage": 0.987},
        "rows": check_rows(), "timing": quick_timing(ms), **more,
    }  # fmt: skip


def _opening(t: Teller) -> None:
    budget = {"attempts": 12, "wall_s": 900.0, "tokens": None, "money": None, "device_s": 300.0}
    t.tell("run.created", {
        "run": "41", "name": "layernorm_gelu", "target": "cpu", "protocol": "strict/1", "mode": "eval", "precision": "as-reference",
        "engineers": {"planner": "offline", "coder": "offline", "verifier": "offline"}, "budget": budget, "source": t.put(REFERENCE),
    }, "Ada")  # fmt: skip
    t.tell(
        "run.status",
        {"status": "queued", "doing": "Queued", "waiting": "Second in line for cpu: the one runner works on run 40."},
    )
    t.tell("run.status", _line("analysing", "Analysing the reference", 0))
    t.tell("analysis.done", {
        "blob": t.put("{}"), "entry": "Model", "inputs": ["float32 [8, 512, 1024]"], "outputs": ["float32 [8, 512, 1024]"],
        "parameters": 2048, "flops": 45_300_000, "bytes": 33_562_624, "eager_ms": 4.38, "device": DEVICE,
        "ops": [{"op": "aten.gelu", "count": 1, "time_ns": 2_410_000, "share": 0.552},
                {"op": "aten.native_layer_norm", "count": 1, "time_ns": 1_930_000, "share": 0.441}],
    }, "runner", after=3.1)  # fmt: skip
    t.tell("profile.done", {
        "role": "reference", "candidate": None, "status": "measured", "finding": "Two passes over memory.",
        "blob": t.put(profile_report("reference", {"aten::gelu": (2_410_000, "GeluKernel"), "aten::native_layer_norm": (1_930_000, "LayerNormKernelImpl")}, "Two passes over memory.")),
    }, "runner")  # fmt: skip
    t.tell("usage.changed", {"usage": {"attempts": 0, "wall_s": 5.2, "device_s": 4.0}, "budget": budget})
    t.tell("run.status", _line("planning", "Planning", 1))
    t.tell("plan.made", {"version": 1, "approved": False, "note": "The program moves each element four times; twice would do.", "todos": [
        {"id": "t1", "kind": "fuse", "title": "Fuse LayerNorm and GELU into one pass", "ops": ["layer_norm", "gelu"], "predicted": 1.6,
         "why": "Both read and write the whole tensor; fused, one read and one write are left.", "constraints": ["fp32 throughout"]},
        {"id": "t2", "kind": "memory", "title": "Two-pass variance in registers", "ops": ["layer_norm"], "predicted": 1.15},
        {"id": "t3", "kind": "host", "title": "Drop the output allocation", "ops": ["empty_like"], "predicted": 1.03},
        {"id": "t4", "kind": "algebra", "title": "Cheaper erf", "ops": ["gelu"], "predicted": 1.1, "status": "dropped", "note": "It would reduce the precision."},
    ]}, "engineer")  # fmt: skip
    t.tell("run.status", _line("awaiting_approval", "", 2, waiting="The plan waits for approval."))


def _failures(t: Teller) -> None:
    base = candidate(t, "c1", "fused pass", parent=None, todo="t1", kernel=KERNEL.replace("const float rstd", "// rstd"))
    t.tell("candidate.changed", base, "engineer", after=2.0)
    t.tell("run.status", _line("building", "Building c1", 4, "c1"))
    t.tell("candidate.changed", base | {
        "status": "done", "verdict": "build-failed", "sentence": "The compiler refused kernels/ln_gelu.cpp.", "build": build_facts(t, ok=False),
    }, "runner")  # fmt: skip
    t.tell(
        "decision.made",
        {"candidate": "c1", "route": "retry", "sentence": "The kernel does not compile; the error names the line."},
        "engineer",
    )
    base = candidate(
        t, "c2", "fix: declare rstd <b>", parent="c1", todo="t1", kernel=KERNEL.replace("1e-5f", "1e-2f"), skill="feedback"
    )
    t.tell("candidate.changed", base, "engineer")
    _live(t, "c2", base, 6)
    t.tell("candidate.changed", base | {
        "status": "done", "verdict": "incorrect", "sentence": "Draw 3 differs by 0.31 where 1e-4 is allowed.", "build": build_facts(t),
        "check": {"passed": 12, "failed": 1, "not_run": 1}, "rows": check_rows("draw 3"),
    }, "runner")  # fmt: skip


def story() -> tuple[list[Event], MemoryBlobs]:
    """The whole run, from upload to a confirmed candidate."""
    t = Teller()
    budget = {"attempts": 12, "wall_s": 900.0, "tokens": None, "money": None, "device_s": 300.0}
    _opening(t)
    t.tell("control.changed", {"id": "1", "kind": "approve_plan", "state": "requested", "by": "Ada"}, "Ada", after=8)
    t.tell("control.changed", {"id": "1", "kind": "approve_plan", "state": "applied", "by": "Ada"}, "system")
    t.tell("run.status", _line("coding", "Writing a candidate for t1", 3))
    t.tell(
        "todo.changed",
        {
            "id": "t1",
            "kind": "fuse",
            "title": "Fuse LayerNorm and GELU into one pass",
            "ops": ["layer_norm", "gelu"],
            "predicted": 1.6,
            "status": "doing",
        },
    )
    _failures(t)
    base = candidate(t, "c3", "fix: epsilon", parent="c2", todo="t1", kernel=KERNEL, skill="feedback")
    t.tell("candidate.changed", base, "engineer")
    _live(t, "c3", base, 9)
    t.tell("run.status", _line("timing", "Timing c3", 11, "c3"))
    t.tell(
        "candidate.changed",
        base
        | {
            "status": "timing",
            "build": build_facts(t),
            "rows": check_rows(),
            "check": {"passed": 13, "failed": 0, "not_run": 1},
        },
        "runner",
    )
    t.tell("timing.round", {"candidate": "c3", "arm": "eager", "round": 3, "rounds": 6, "median_ms": 4.4}, "runner")
    profile = t.put(
        profile_report(
            "candidate",
            {"ln_gelu": (2_350_000, "ln_gelu(float const*, float*, long, long)")},
            "Memory-bound: every byte is moved once.",
            0.987,
        )
    )
    t.tell("candidate.changed", _passed(t, base, 2.41), "runner", after=3.1)
    t.tell("best.changed", {"candidate": "c3"})
    t.tell(
        "todo.changed",
        {
            "id": "t1",
            "kind": "fuse",
            "title": "Fuse LayerNorm and GELU into one pass",
            "ops": ["layer_norm", "gelu"],
            "predicted": 1.6,
            "measured": 1.82,
            "measured_low": 1.76,
            "measured_high": 1.87,
            "status": "done",
        },
    )
    t.tell("usage.changed", {"usage": {"attempts": 3, "wall_s": 41.7, "device_s": 22.4}, "budget": budget})
    hack = candidate(t, "c4", "last output by pointer", parent="c3", todo="t3", kernel=KERNEL)
    t.tell("candidate.changed", hack, "engineer")
    t.tell(
        "candidate.changed",
        hack
        | {
            "status": "done",
            "verdict": "hack:output_cache",
            "sentence": "It returns the result of an earlier call.",
            "build": build_facts(t),
            "check": {"passed": 12, "failed": 1, "not_run": 1},
            "rows": check_rows("same buffer, new data"),
        },
        "runner",
    )
    t.tell(
        "control.changed",
        {"id": "2", "kind": "hint", "state": "requested", "by": "Ada", "text": "Rows are always a multiple of 8."},
        "Ada",
    )
    base = candidate(t, "c5", "variance in a second pass", parent="c3", todo="t2", kernel=KERNEL_2)
    t.tell("candidate.changed", base, "engineer")
    t.tell(
        "control.changed",
        {"id": "2", "kind": "hint", "state": "applied", "by": "Ada", "text": "Rows are always a multiple of 8."},
    )
    _live(t, "c5", base, 17)
    t.tell("run.status", _line("profiling", "Profiling c5", 19, "c5"))
    t.tell("candidate.changed", _passed(t, base, 2.19) | {"status": "profiling"}, "runner")
    t.tell(
        "profile.done",
        {
            "role": "candidate",
            "candidate": "c5",
            "blob": profile,
            "status": "measured",
            "finding": "Memory-bound: every byte is moved once, so at most 1.39× is left before the floor.",
            "coverage": 0.987,
        },
        "runner",
    )
    t.tell(
        "candidate.changed",
        _passed(
            t,
            base,
            2.19,
            profile=profile,
            finding="Memory-bound: every byte is moved once, so at most 1.39× is left before the floor.",
        ),
        "runner",
    )
    t.tell(
        "decision.made",
        {
            "candidate": "c5",
            "route": "advance",
            "bottleneck": "memory",
            "sentence": "At 72 % of the physical floor; the next to-do moves no fewer bytes.",
            "suggestions": ["Keep the rows in registers."],
        },
        "engineer",
    )
    t.tell("best.changed", {"candidate": "c5"})
    t.tell(
        "todo.changed",
        {
            "id": "t2",
            "kind": "memory",
            "title": "Two-pass variance in registers",
            "ops": ["layer_norm"],
            "predicted": 1.15,
            "measured": 1.1,
            "measured_low": 1.07,
            "measured_high": 1.13,
            "status": "done",
        },
    )
    t.tell("control.changed", {"id": "3", "kind": "pause", "state": "requested", "by": "Ada"}, "Ada")
    t.tell("control.changed", {"id": "3", "kind": "pause", "state": "applied", "by": "Ada"})
    t.tell("run.status", _line("paused", "", 21, waiting="Paused by Ada, before the next to-do."))
    t.tell("control.changed", {"id": "4", "kind": "resume", "state": "applied", "by": "Ada"})
    t.tell("run.status", _line("timing", "Confirming c5 with every baseline", 22, "c5"))
    t.tell(
        "candidate.changed",
        _passed(
            t,
            base,
            2.19,
            profile=profile,
            confirmed=full_timing(2.18),
            finding="Memory-bound: every byte is moved once, so at most 1.39× is left before the floor.",
        ),
        "runner",
        after=14,
    )
    t.tell("usage.changed", {"usage": {"attempts": 5, "wall_s": 88.2, "device_s": 51.0}, "budget": budget})
    t.tell("run.status", {"status": "finished", "step": 23, "stop_cause": "todos-done"})
    t.tell("run.finished", {"verdict": "verified", "stop_cause": "todos-done", "best": "c5", "speedup_vs_eager": 2.01, "speedup_vs_compile": 1.39, "sentence": "Every to-do was tried. c5 is 2.01× faster than eager and 1.39× faster than torch.compile."})  # fmt: skip
    return t.events, t.blobs


def refused_story() -> tuple[list[Event], MemoryBlobs]:
    """A run whose reference crashes."""
    t = Teller()
    t.tell(
        "run.created",
        {
            "run": "42",
            "name": "broken",
            "target": "cpu",
            "protocol": "strict/1",
            "mode": "eval",
            "precision": "as-reference",
            "engineers": {"coder": "offline"},
            "budget": {"attempts": 12},
            "source": t.put(REFERENCE),
        },
    )
    refusal = {
        "code": "crash",
        "sentence": "The forward crashes: shapes [8, 3] and [4, 2] cannot be multiplied.",
        "way_out": "Correct line 11 and upload it again.",
        "line": 11,
        "log": "Traceback (most recent call last):\n  <script>alert(1)</script>",
    }
    t.tell("analysis.done", {"blob": t.put("{}"), "refusal": refusal})
    t.tell("run.status", {"status": "finished", "stop_cause": "refused"})
    t.tell("run.finished", {"verdict": "refused", "stop_cause": "refused", "sentence": refusal["sentence"]})
    return t.events, t.blobs


def view_at(events: list[Event], until: Callable[[Event], bool] | None = None) -> View:
    """The fold of the events up to and with the first that `until` accepts, or of all."""
    chosen: list[Event] = []
    for event in events:
        chosen.append(event)
        if until and until(event):
            break
    return fold_all(View(), chosen)


class NoBlobs:
    """A store that lost everything."""

    def get(self, ref: BlobRef) -> bytes:
        raise KeyError(ref.sha256)
