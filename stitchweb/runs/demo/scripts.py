"""What happens in the synthetic runs: attempts, refusals, a cancelled one, a failed one."""

from __future__ import annotations

from dataclasses import dataclass, field

from agents.state import Search, Todo
from gpu_runner.contracts import HackClass, Refusal, Verdict


@dataclass(frozen=True)
class Attempt:
    """One candidate and what becomes of it. `speedup` over eager, for verified ones."""

    title: str
    verdict: Verdict = Verdict.VERIFIED
    speedup: float = 1.0
    hack: HackClass | None = None


@dataclass(frozen=True)
class Script:
    """One run. `cancel_at`: the step before which a person cancels; `broken`: the machine's own trouble, every time."""

    name: str
    attempts: tuple[Attempt, ...] = ()
    refusal: Refusal | None = None
    nulls: tuple[str, ...] = ()
    cancel_at: int | None = None
    broken: str = ""
    waits: bool = False  # stops at its plan, for a person to approve
    search: Search = field(default_factory=Search)


TODOS = (
    Todo(id="", kind="fuse", title="Fuse the chain into one pass", why="Each operation reads and writes the whole tensor.",
         ops=("layer_norm", "gelu"), constraints=("float32 throughout",), predicted=1.6),
    Todo(id="", kind="reduce", title="Two-pass variance in registers", why="The second read comes from the cache.",
         ops=("layer_norm",), predicted=1.25),
    Todo(id="", kind="memory", title="Write the result past the cache", why="Nobody reads it again here.", predicted=1.12),
    Todo(id="", kind="host", title="Drop the output's allocation", why="Allocating costs microseconds.", predicted=1.03),
)  # fmt: skip

_BUILD = Attempt("fused pass", Verdict.BUILD_FAILED)
_WRONG = Attempt("declare rstd", Verdict.INCORRECT)
_HACKED = Attempt("short cut", Verdict.HACK, hack=HackClass.TORCH_FALLBACK)
_SPECIAL = Attempt("constants for these shapes", Verdict.INPUT_SPECIALISED)

SCRIPTS: tuple[Script, ...] = (
    Script("long", (_BUILD, _WRONG, Attempt("epsilon as in the reference", speedup=1.58),
                    Attempt("two-pass variance", speedup=2.04), _HACKED, _SPECIAL,
                    Attempt("streaming stores", speedup=2.31), Attempt("one allocation", speedup=2.32))),
    Script("short", (Attempt("fused pass", speedup=1.74), Attempt("unrolled by four", speedup=1.71))),
    Script("steady", (Attempt("fused pass", speedup=1.21), Attempt("blocks of rows", speedup=1.48), _WRONG,
                      Attempt("blocks that fit the cache", speedup=1.83))),
    Script("no-gain", (Attempt("fused pass", speedup=0.93), Attempt("vector maths", speedup=1.01), _BUILD, _WRONG)),
    Script("degenerate", nulls=("zeros",)),
    Script("missing-package", refusal=Refusal(
        code="missing_package", sentence="The program imports the package einops, which this runner does not have.", line=3,
        way_out="Write it with torch alone, or have the runner's owner add it to RUNNER_PACKAGES.")),
    Script("cancelled", (Attempt("fused pass", speedup=1.33),), cancel_at=6),
    Script("failed", broken="No sandbox: this kernel forbids user namespaces. `manage.py doctor` says how to allow them."),
    Script("waiting", waits=True),
    Script("wide", (Attempt("fused pass", speedup=1.42), _BUILD, Attempt("rows per thread", speedup=1.31),
                    Attempt("two-pass variance", speedup=1.77), Attempt("variance in registers", speedup=1.69), _WRONG,
                    Attempt("streaming stores", speedup=1.79), _HACKED, Attempt("blocks of rows", speedup=2.21),
                    Attempt("one allocation", speedup=2.22), _SPECIAL, Attempt("no allocation", speedup=2.19)),
           search=Search(width=3, beam=2)),
)  # fmt: skip

MODEL_NEW = '''"""{title}. Synthetic: written by seed_demo, never built."""

import ctypes
from pathlib import Path

import torch
import torch.nn as nn

_kernels = ctypes.CDLL(str(Path(__file__).with_name("libkernels.so")))


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        out = torch.empty_like(x)
        _kernels.fused_rows(x.data_ptr(), out.data_ptr(), x.numel() // x.shape[-1], x.shape[-1])
        return out
'''
KERNEL = """// {title}. Synthetic: written by seed_demo, never built.
#include <cmath>
#include <cstdint>

extern "C" void fused_rows(const float* x, float* y, int64_t rows, int64_t n) {{
    #pragma omp parallel for
    for (int64_t r = 0; r < rows; ++r) {{
        const float* row = x + r * n;
        float sum = 0.f, square = 0.f;
        for (int64_t i = 0; i < n; ++i) {{ sum += row[i]; square += row[i] * row[i]; }}
        const float mean = sum / n;
        const float rstd = 1.f / std::sqrt(square / n - mean * mean + 1e-5f);
        // Attempt {number}
        for (int64_t i = 0; i < n; ++i) {{
            const float v = (row[i] - mean) * rstd;
            y[r * n + i] = 0.5f * v * (1.f + std::erf(v * 0.70710678f));
        }}
    }}
}}
"""


def files(attempt: Attempt, number: int) -> dict[str, str]:
    """The candidate's files; each attempt's differ a little."""
    return {
        "model_new.py": MODEL_NEW.format(title=attempt.title.capitalize()),
        "kernels/fused.cpp": KERNEL.format(title=attempt.title.capitalize(), number=number),
    }
