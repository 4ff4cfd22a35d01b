"""The demonstrations' answers: what a model says in each role, written by people, for `tools/cassettes.py` to record."""

# ruff: noqa: E501  # a sentence of a model stays on one line

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Call = tuple[str, dict[str, Any]]

LOAD = """import ctypes
from pathlib import Path

import torch
import torch.nn as nn

lib = ctypes.CDLL(str(Path(__file__).with_name("libkernels.so")))
P, N = ctypes.c_void_p, ctypes.c_int64
"""
EXP = """#include <cstdint>
#include <cstring>

static inline float exponential(float x) {
    x = x < -87.3f ? -87.3f : x;
    x = x > 88.7f ? 88.7f : x;
    const float shifted = x * 1.44269504f + 12582912.0f, n = shifted - 12582912.0f;
    const float r = (x - n * 0.693145752f) - n * 1.42860677e-6f;
    float p = 1.0f / 5040.0f;
    p = p * r + 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    int32_t bits;
    std::memcpy(&bits, &shifted, 4);
    bits = (bits - 0x4B400000 + 126) << 23;
    float power;
    std::memcpy(&power, &bits, 4);
    return p * power * 2.0f;
}
"""


def fenced(info: str, text: str) -> str:
    return f"```{info}\n{text.rstrip()}\n```\n\n"


def edit(path: str, old: str, new: str) -> str:
    return f"{path}\n<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE\n"


def plan(note: str, *todos: dict[str, Any]) -> str:
    return json.dumps({"note": note, "todos": list(todos)}, ensure_ascii=False, indent=1)


def verdict(route: str, bottleneck: str, sentence: str, *suggestions: str) -> str:
    value = {"bottleneck": bottleneck, "evidence": [], "suggestions": suggestions, "route": route, "sentence": sentence}
    return json.dumps(value, ensure_ascii=False, indent=1)


@dataclass(frozen=True)
class Story:
    """What a model says in each role, in order. A Coder's turn is text, or calls of tools."""

    program: str
    about: str
    plans: Sequence[str]
    codes: Sequence[str | list[Call]]
    verdicts: Sequence[str]
    coder: str = "llm"
    ends: Sequence[str] = ("verified",)


# ---- one pass over the data: a missing semicolon, then a slow loop, then one that vectorises

CHAIN_MODEL = (
    LOAD
    + """lib.chain.argtypes = [P, P, P, P, P, N, N]
lib.chain.restype = None


class ModelNew(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.scale = nn.Parameter(torch.full((width,), 0.5))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        x, gate = x.contiguous(), gate.contiguous()
        out = torch.empty_like(x)
        width = x.shape[-1]
        lib.chain(
            x.data_ptr(), gate.data_ptr(), self.scale.data_ptr(), self.bias.data_ptr(), out.data_ptr(),
            x.numel() // max(1, width), width,
        )
        return out
"""
)
CHAIN_SLOW = """#include <cmath>
#include <cstdint>

extern "C" void chain(const float* x, const float* gate, const float* scale, const float* bias, float* out,
                      int64_t rows, int64_t width) {
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < width; ++c) {
            const int64_t i = r * width + c;
            const float g = 1.0f / (1.0f + std::exp(-(gate[i] * scale[c] + bias[c])));
            float h = std::tanh(x[i]) * g + x[i] * (1.0f - g);
            h = h > 0.0f ? h : 0.1f * h;
            h = h < -3.0f ? -3.0f : h;
            h = h > 3.0f ? 3.0f : h;
            out[i] = h * std::exp(-0.5f * g)
        }
}
"""
CHAIN_FAST = (
    EXP
    + """
extern "C" void chain(const float* __restrict x, const float* __restrict gate, const float* __restrict scale,
                      const float* __restrict bias, float* __restrict out, int64_t rows, int64_t width) {
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; ++r) {
        const float* xr = x + r * width;
        const float* gr = gate + r * width;
        float* to = out + r * width;
#pragma omp simd
        for (int64_t c = 0; c < width; ++c) {
            const float v = xr[c];
            const float g = 1.0f / (1.0f + exponential(-(gr[c] * scale[c] + bias[c])));
            const float e = exponential(2.0f * v), near = v * (1.0f - v * v * (1.0f / 3.0f));
            const float t = v > -0.02f && v < 0.02f ? near : 1.0f - 2.0f / (1.0f + e);
            float h = t * g + v * (1.0f - g);
            h = h > 0.0f ? h : 0.1f * h;
            h = h < -3.0f ? -3.0f : h;
            h = h > 3.0f ? 3.0f : h;
            to[c] = h * exponential(-0.5f * g);
        }
    }
}
"""
)
CHAIN = Story(
    program="elementwise_chain.py",
    about="A dozen pointwise operations become one loop: first with a missing semicolon, then right but slow, then vectorised.",
    plans=[
        plan(
            "Every operation reads and writes whole tensors of 16 MB, so the program is bound by memory and by calls of exp and "
            "tanh that do not vectorise across operations.",
            {"title": "The whole chain in one pass over the data", "kind": "fuse", "predicted": 3.0,
             "why": "A dozen kernels each move the tensor through memory; one pass moves it once.", "constraints":
             ["parameters keep their names scale and bias", "NaN goes through as in the reference"]},
        )
    ],
    codes=[
        "All operations of the chain in one loop, with no tensor in between.\n\n"
        + fenced("python model_new.py", CHAIN_MODEL)
        + fenced("cpp kernels/chain.cpp", CHAIN_SLOW),
        "The last statement of the loop lacked its semicolon.\n\n"
        + edit("kernels/chain.cpp", "            out[i] = h * std::exp(-0.5f * g)", "            out[i] = h * std::exp(-0.5f * g);"),
        "The calls of exp and tanh keep the loop from vectorising, and one core does it all. An inlined polynomial and OpenMP "
        "over the rows change both.\n\n" + fenced("cpp kernels/chain.cpp", CHAIN_FAST),
    ],
    verdicts=[
        verdict("retry", "does not compile", "A semicolon is missing at the end of the loop; the idea is untouched by that.",
                "put the semicolon behind the last statement of the loop"),
        verdict("optimise", "calls of exp and tanh, one element at a time on one core",
                "It is right, and it moves the data once. What takes the time now are scalar library calls.",
                "an inlined polynomial for exp, so that the loop vectorises", "OpenMP over the rows"),
        verdict("stop", "near what memory allows", "One pass, vectorised, on all cores: nothing is left that is worth another try."),
    ],
)  # fmt: skip

# ---- statistics by group: a term is forgotten, and found by the check

GROUP_MODEL = (
    LOAD
    + """import torch.nn.functional as F

lib.group_norm.argtypes = [P, P, P, P, P, P, N, N, N, N, N, ctypes.c_float]
lib.group_norm.restype = None


class ModelNew(nn.Module):
    def __init__(self, channels: int, groups: int, embed: int):
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)
        self.proj = nn.Linear(embed, 2 * channels)

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        mix = self.proj(F.silu(t)).contiguous()
        out = torch.empty_like(x)
        n, channels, height, width = x.shape
        lib.group_norm(
            x.data_ptr(), self.norm.weight.data_ptr(), self.norm.bias.data_ptr(), mix.data_ptr(), out.data_ptr(), None,
            n, channels, self.norm.num_groups, height * width, mix.stride(0), self.norm.eps,
        )
        return out
"""
)
GROUP_KERNEL = (
    EXP
    + """
// out = silu(norm(x) * (1 + scale) + shift); one task per image and group, whose numbers stay in the cache between two passes
extern "C" void group_norm(const float* __restrict x, const float* __restrict weight, const float* __restrict bias,
                           const float* __restrict mix, float* __restrict out, const float*, int64_t images,
                           int64_t channels, int64_t groups, int64_t pixels, int64_t step, float eps) {
    const int64_t size = channels / groups;
#pragma omp parallel for collapse(2) schedule(static)
    for (int64_t n = 0; n < images; ++n)
        for (int64_t g = 0; g < groups; ++g) {
            const int64_t first = (n * channels + g * size) * pixels, count = size * pixels;
            double sum = 0.0, squares = 0.0;
            for (int64_t at = 0; at < count; at += 256) {
                const int64_t end = at + 256 < count ? at + 256 : count;
                float a = 0.0f, b = 0.0f;
#pragma omp simd reduction(+ : a, b)
                for (int64_t i = at; i < end; ++i) {
                    const float v = x[first + i];
                    a += v;
                    b += v * v;
                }
                sum += a;
                squares += b;
            }
            const double mean = sum / count, variance = squares / count - mean * mean;
            const float rate = (float)(1.0 / __builtin_sqrt((variance > 0.0 ? variance : 0.0) + eps));
            for (int64_t c = 0; c < size; ++c) {
                const int64_t channel = g * size + c, from = first + c * pixels;
                const float grow = GROW, shift = mix[n * step + channels + channel];
                const float a = weight[channel] * rate * grow;
                const float b = (bias[channel] - (float)mean * weight[channel] * rate) * grow + shift;
#pragma omp simd
                for (int64_t i = 0; i < pixels; ++i) {
                    const float v = x[from + i] * a + b;
                    out[from + i] = v / (1.0f + exponential(-v));
                }
            }
        }
}
"""
)
GROUP = Story(
    program="groupnorm_silu.py",
    about="GroupNorm, its modulation and SiLU in one kernel: a forgotten term of the modulation is found by the check and repaired.",
    plans=[
        plan(
            "The convolution-free head is bound by memory: norm, scale, shift and SiLU each walk over 9 MB.",
            {"title": "GroupNorm, modulation and SiLU in one kernel", "kind": "fuse", "predicted": 2.0,
             "why": "A group of an image is 37 kB: it stays in the cache between the statistics and the second pass.",
             "constraints": ["proj stays a Linear of PyTorch; it is small"]},
        )
    ],
    codes=[
        "One task per image and group: statistics first, then everything else in a second pass that finds the numbers in cache.\n\n"
        + fenced("python model_new.py", GROUP_MODEL)
        + fenced("cpp kernels/group_norm.cpp", GROUP_KERNEL.replace("GROW", "mix[n * step + channel]")),
        "The modulation multiplies by one plus the scale, and the one was missing.\n\n"
        + edit("kernels/group_norm.cpp", "grow = mix[n * step + channel]", "grow = 1.0f + mix[n * step + channel]"),
    ],
    verdicts=[
        verdict("retry", "the modulation lacks the one that is added to the scale",
            "Every element is wrong, and the more so the smaller its scale is: the factor is the scale itself.",
            "multiply by one plus the scale, as the reference does"),
        verdict("stop", "memory", "The data are read twice and written once, the second time out of the cache. That is what there was."),
    ],
)  # fmt: skip

# ---- a Coder with tools

NORM_MODEL = (
    LOAD
    + """lib.rms_norm.argtypes = [P, P, P, P, P, N, N, ctypes.c_float]
lib.rms_norm.restype = None


class RMSNorm(nn.Module):
    def __init__(self, dim: int, eps: float = 1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))


class ModelNew(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.norm = RMSNorm(dim)

    def forward(self, x: torch.Tensor, residual: torch.Tensor):
        x, residual = x.contiguous(), residual.contiguous()
        total, out = torch.empty_like(x), torch.empty_like(x)
        width = x.shape[-1]
        lib.rms_norm(
            x.data_ptr(), residual.data_ptr(), self.norm.weight.data_ptr(), total.data_ptr(), out.data_ptr(),
            x.numel() // max(1, width), width, self.norm.eps,
        )
        return out, total
"""
)
NORM_KERNEL = """#include <cmath>
#include <cstdint>

extern "C" void rms_norm(const float* __restrict x, const float* __restrict residual, const float* __restrict weight,
                         float* __restrict total, float* __restrict out, int64_t rows, int64_t width, float eps) {
    for (int64_t r = 0; r < rows; ++r) {
        const float *a = x + r * width, *b = residual + r * width;
        float *sum = total + r * width, *to = out + r * width, squares = 0.0f;
#pragma omp simd reduction(+ : squares)
        for (int64_t c = 0; c < width; ++c) {
            sum[c] = a[c] + b[c];
            squares += sum[c] * sum[c];
        }
        const float rate = 1.0f / std::sqrt(squares / width + eps);
#pragma omp simd
        for (int64_t c = 0; c < width; ++c) to[c] = sum[c] * rate * weight[c];
    }
}
"""
NORM = Story(
    program="rmsnorm.py",
    about="A Coder with tools writes a fused RMSNorm, verifies and times it, reads its profile and puts it on all cores.",
    plans=[
        plan(
            "Add, square, mean, scale and weight are five walks over 8 MB each.",
            {"title": "Residual add and RMSNorm in one kernel", "kind": "fuse", "predicted": 2.5,
             "why": "A row of 4 kB stays in the first cache between its sum of squares and its scaling.", "constraints":
             ["both results, the norm first"]},
        )
    ],
    codes=[
        [("list_files", {}), ("read_file", {"path": "reference.py"})],
        [("write_file", {"path": "model_new.py", "text": NORM_MODEL}), ("write_file", {"path": "kernels/rms_norm.cpp", "text": NORM_KERNEL}),
         ("build", {})],
        [("verify", {}), ("time", {})],
        [("profile", {})],
        [("edit_file", {"path": "kernels/rms_norm.cpp", "old": "    for (int64_t r = 0; r < rows; ++r) {",
                        "new": "#pragma omp parallel for schedule(static)\n    for (int64_t r = 0; r < rows; ++r) {"}),
         ("verify", {}), ("time", {})],
        [("finish", {"summary": "Residual add and RMSNorm in one kernel, rows spread over all cores."})],
    ],
    verdicts=[verdict("stop", "memory", "The data move once each way, on all cores.")],
    coder="agentic",
)  # fmt: skip

STORIES = {"one-pass": CHAIN, "forgotten-term": GROUP, "with-tools": NORM}
