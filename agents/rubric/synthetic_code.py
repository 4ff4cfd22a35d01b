"""The texts of the synthetic set: references that differ, and candidates whose code shows what their levels say."""

from __future__ import annotations

import random
from collections.abc import Mapping

_UNARY = ("relu", "tanh", "sigmoid", "exp", "sin", "cos", "abs", "sqrt", "log1p", "erf", "square", "rsqrt")
_LAYERS = ("nn.Linear(width, width)", "nn.LayerNorm(width)", "nn.GELU()", "nn.SiLU()", "nn.Softmax(dim=-1)", "nn.ELU()")
_BINARY = ("torch.add", "torch.mul", "torch.maximum", "torch.minimum", "torch.hypot", "torch.atan2")


def reference_text(number: int, chance: random.Random) -> str:
    """A chain of operators as a program with Model, get_inputs and get_init_inputs."""
    layers = chance.sample(_LAYERS, 2)
    steps = []
    for _ in range(chance.randint(4, 7)):
        if chance.random() < 0.35:
            steps.append(f"x = {chance.choice(_BINARY)}(x, self.first(torch.{chance.choice(_UNARY)}(x)))")
        elif chance.random() < 0.5:
            steps.append(f"x = self.second(torch.{chance.choice(_UNARY)}(x.clamp(min={chance.randint(1, 9) / 10})))")
        else:
            steps.append(
                f"x = torch.{chance.choice(_UNARY)}(torch.{chance.choice(_UNARY)}(x)) - x.{chance.choice(('mean', 'amax', 'amin'))}(-1, keepdim=True)"
            )
    body = "\n".join(f"        {step}" for step in steps)
    return f'''"""Synthetic reference {number + 1}: a chain of {len(steps)} operators."""
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first = {layers[0]}
        self.second = {layers[1]}

    def forward(self, x):
{body}
        return x


def get_inputs():
    return [torch.randn({64 * chance.randint(1, 8)}, {128 * chance.randint(1, 8)})]


def get_init_inputs():
    return [{128 * chance.randint(1, 8)}]
'''


def _shows(wanted: bool, chance: random.Random) -> bool:
    """Whether a sign is there: as it should, but for one time in ten."""
    return wanted if chance.random() < 0.9 else not wanted


def candidate_files(index: int, reference: str, levels: Mapping[str, int], hack: bool, chance: random.Random) -> dict[str, str]:
    """`model_new.py` and a kernel."""
    engineering, coverage = levels["cuda_engineering"], levels["operator_coverage"]
    name = f"chain_{index}"
    steps = [line.strip() for line in reference.splitlines() if line.startswith("        x = ")]
    kept = steps[round(len(steps) * (coverage - 1) / 4) :]
    cached = _shows(hack, chance)
    lines = [
        "        place = (x.data_ptr(), tuple(x.shape))",
        "        if place in self.results:",
        "            return self.results[place]",
    ]
    body = "\n".join(
        [
            *(lines if cached else []),
            "        y = torch.empty_like(x)",
            f"        _lib.{name}(x.data_ptr(), y.data_ptr(), x.numel(), torch.cuda.current_stream().cuda_stream)",
            *(f"        {step.replace('x', 'y', 1)}" for step in kept),
            *(["        self.results[place] = y"] if cached else []),
            "        return y",
        ]
    )
    module = f'''"""Synthetic candidate {index + 1}, never built."""
import ctypes
from pathlib import Path

import torch
import torch.nn as nn

_lib = ctypes.CDLL(str(Path(__file__).with_name("libkernels.so")))


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width
        self.results = {{}}

    def forward(self, x):
{body}
'''
    return {
        "model_new.py": module,
        f"kernels/{name}.cu": _kernel(name, index, engineering, coverage, levels["skill_compliance"], chance),
    }


def _kernel(name: str, index: int, engineering: int, coverage: int, compliance: int, chance: random.Random) -> str:
    vector, shared = _shows(engineering >= 3, chance), _shows(engineering >= 4, chance)
    unrolled, checked = _shows(engineering >= 5, chance), _shows(engineering >= 2, chance)
    out = [f"// Synthetic kernel {index + 1}.", "#include <cuda_runtime.h>", "#include <cmath>", ""]
    out.append(f"__global__ void {name}_kernel(const float* __restrict__ x, float* __restrict__ y, long n) {{")
    if shared:
        out += [
            f"    __shared__ float tile[{32 * chance.randint(4, 16)}];",
            "    tile[threadIdx.x] = 0.f;",
            "    __syncthreads();",
        ]
    out.append("    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;")
    if unrolled:
        out.append("    #pragma unroll 4")
    out.append("    for (; i < n; i += (long)gridDim.x * blockDim.x) {")
    out.append("        float4 v = reinterpret_cast<const float4*>(x)[i / 4];" if vector else "        float v = x[i];")
    for step in range(coverage):
        out.append(
            f"        {'v.x' if vector else 'v'} = {chance.choice(('fmaxf', 'fminf', 'hypotf', 'powf'))}({'v.x' if vector else 'v'}, {chance.randint(1, 99)}.{step}f);"
        )
    out += [f"        y[i] = {'v.x' if vector else 'v'};", "    }", "}", ""]
    out.append(f'extern "C" int {name}(const float* x, float* y, long n, cudaStream_t stream) {{')
    stream = "stream" if _shows(compliance >= 3, chance) else "0"
    out.append(f"    {name}_kernel<<<{chance.randint(1, 40) * 27}, {32 * chance.randint(2, 16)}, 0, {stream}>>>(x, y, n);")
    out.append("    return cudaGetLastError();" if checked else "    return 0;")
    return "\n".join([*out, "}", ""])


def feedback_of(levels: Mapping[str, int], chance: random.Random) -> tuple[str, ...]:
    """What the candidate was asked for."""
    points = [
        "Load four values at once.",
        "Launch on the caller's stream.",
        "Fuse the rest of the chain.",
        "Use a tile in shared memory.",
    ]
    return tuple(chance.sample(points, 1 + (levels["skill_compliance"] < 4)))
