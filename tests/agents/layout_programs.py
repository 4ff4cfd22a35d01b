"""Programs around convolutions, written for a GPU in each way and played on the CPU. Prints one JSON line per program and way.

Run as a script (it imports torch, which the tests must not).
"""

from __future__ import annotations

import copy
import importlib.util
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch

from agents.engineers.offline import statistics
from agents.engineers.offline.coder import write_candidate
from agents.engineers.offline.costs import Ceilings
from agents.engineers.offline.opportunities import Way, find_ways
from agents.engineers.offline.regions import REPLAY
from gpu_runner.child.capture import capture
from gpu_runner.contracts import Graph
from tests.agents.cuda_on_cpu import on_cpu
from tests.agents.offline_programs import program

PROGRAMS = {
    "pointwise after a convolution": program(
        "return F.mish(self.c(x) - 0.4) * self.s", "torch.randn(3, 5, 21, 19)",
        "self.c = nn.Conv2d(5, 12, 3)\nself.s = nn.Parameter(torch.randn(12, 1, 1))"),
    "residual of another layout": program(
        "return F.relu(x + self.c(x)) * 2", "torch.randn(2, 40, 15, 33)", "self.c = nn.Conv2d(40, 40, 3, padding=1)"),
    "two results": program(
        "y = F.silu(self.c(x)) + 1\nreturn y, F.relu(self.d(y)) + 1", "torch.randn(2, 6, 18, 18)",
        "self.c = nn.Conv2d(6, 8, 3)\nself.d = nn.Conv2d(8, 8, 3)"),
    "transposed": program(
        "return (self.c(x).clamp(0.0, 1.0) * 2).clamp(0.0, 1.5) / 2.0", "torch.randn(2, 6, 9, 11)",
        "self.c = nn.ConvTranspose2d(6, 10, 3, stride=2, padding=1, output_padding=1)"),
    "one dimension": program(
        "y = F.relu(self.c(F.pad(x, (4, 0))))\nreturn F.relu(x + self.d(y)), y", "torch.randn(3, 16, 70)",
        "self.c = nn.Conv1d(16, 16, 3, dilation=2)\nself.d = nn.Conv1d(16, 16, 3, padding='same')"),
    "padded at one end": program(
        "y = F.relu(self.c(F.pad(x, (4, 0))))\nz = self.d(F.pad(y, (0, 2))) + y[..., ::2]\n"
        "u = self.e(F.pad(x.view(3, 16, 20, 30), (1, 0, 2, 1))).sigmoid() * 2\n"
        "return F.relu(z), u, self.c(F.pad(x, (2, 2), value=1.0)) + 1",
        "torch.randn(3, 16, 600)",
        "self.c = nn.Conv1d(16, 16, 3, dilation=2)\nself.d = nn.Conv1d(16, 16, 4, stride=2)\n"
        "self.e = nn.Conv2d(16, 6, (3, 2))"),
    "three dimensions": program(
        "return F.max_pool3d(F.hardswish(self.c(x)) * 3, 2)", "torch.randn(2, 3, 10, 12, 11)", "self.c = nn.Conv3d(3, 8, 3)"),
    "pooled and flattened": program(
        "y = F.max_pool2d(F.relu(self.c(x)), 2)\ny = F.avg_pool2d(F.relu(self.d(y)) * 2, 2)\nreturn self.l(y.flatten(1))",
        "torch.randn(4, 3, 30, 30)",
        "self.c = nn.Conv2d(3, 8, 3)\nself.d = nn.Conv2d(8, 12, 3)\nself.l = nn.Linear(432, 10)"),
    "channels cut and joined": program(
        "a, b = self.c(x).chunk(2, 1)\ny = torch.cat([F.relu(a) + 1, b], 1)\nreturn self.d(y.view(2, 2, 6, 16, 16)"
        ".transpose(1, 2).reshape(2, 12, 16, 16)) + 1",
        "torch.randn(2, 4, 16, 16)", "self.c = nn.Conv2d(4, 12, 3, padding=1)\nself.d = nn.Conv2d(12, 6, 1)"),
    "norm of channels": program(
        "y = self.n(self.c(x).permute(0, 2, 3, 1))\nreturn x + F.gelu(self.l(y)).permute(0, 3, 1, 2)",
        "torch.randn(2, 8, 24, 24)",
        "self.c = nn.Conv2d(8, 8, 7, padding=3, groups=8)\nself.n = nn.LayerNorm(8)\nself.l = nn.Linear(8, 8)"),
    "squeezed and excited": program(
        "y = self.c(x)\nreturn y * torch.sigmoid(self.e(F.silu(self.d(F.adaptive_avg_pool2d(y, 1)))))",
        "torch.randn(4, 6, 20, 20)",
        "self.c = nn.Conv2d(6, 16, 3)\nself.d = nn.Conv2d(16, 4, 1)\nself.e = nn.Conv2d(4, 16, 1)"),
    "batch norm in training": program(
        "y = F.relu(self.n(self.c(x)))\nreturn y + F.silu(self.m(self.d(y)))", "torch.randn(3, 5, 40, 41)",
        "self.c = nn.Conv2d(5, 24, 3, padding=1)\nself.n = nn.BatchNorm2d(24)\n"
        "self.d = nn.Conv2d(24, 24, 1, bias=False)\nself.m = nn.BatchNorm2d(24, momentum=0.3)"),
    "batch norm of many channels": program(
        "return F.relu(self.n(self.c(x)))", "torch.randn(2, 4, 20, 20)",
        "self.c = nn.Conv2d(4, 300, 3, padding=1)\nself.n = nn.BatchNorm2d(300)"),
    "batch norm, then a maximum": program(
        "return self.l(F.relu(self.n(self.c(x))).amax(-1))", "torch.randn(3, 5, 1500)",
        "self.c = nn.Conv1d(5, 24, 1)\nself.n = nn.BatchNorm1d(24, momentum=0.3)\nself.l = nn.Linear(24, 5)"),
    "batch norm, then windows and all of it": program(
        "y = F.relu(self.n(self.c(x)))\nz = F.silu(self.m(self.d(F.max_pool2d(y, 2))))\n"
        "return y * 2, F.avg_pool2d(z, (2, 4)), self.o(self.d(z)).mean((2, 3))",
        "torch.randn(3, 5, 40, 40)",
        "self.c = nn.Conv2d(5, 24, 3, padding=1)\nself.n = nn.BatchNorm2d(24)\n"
        "self.d = nn.Conv2d(24, 24, 1, bias=False)\nself.m = nn.BatchNorm2d(24)\nself.o = nn.BatchNorm2d(24, affine=False)"),
    "group norm and residual": program(
        "return x + F.silu(self.n(self.c(x)))", "torch.randn(3, 16, 24, 24)",
        "self.c = nn.Conv2d(16, 16, 3, padding=1)\nself.n = nn.GroupNorm(4, 16)"),
    "instance norm": program(
        "return self.n(self.c(x)) / 2.0", "torch.randn(3, 5, 22, 22)",
        "self.c = nn.Conv2d(5, 12, 3)\nself.n = nn.InstanceNorm2d(12)"),
    "mean of a normalised volume": program(
        "return self.n(F.hardswish(self.c(x))).mean(dim=(2, 3, 4))", "torch.randn(2, 3, 12, 14, 14)",
        "self.c = nn.Conv3d(3, 12, 3)\nself.n = nn.GroupNorm(4, 12)"),
    "depthwise": program(
        "y = F.hardtanh(self.b(F.silu(self.a(self.c(x)))), 0, 6)\nreturn self.d(F.relu(self.e(y)) + 1)",
        "torch.randn(3, 5, 27, 20)",
        "self.c = nn.Conv2d(5, 8, 1)\nself.a = nn.Conv2d(8, 8, 5, padding=2, groups=8)\n"
        "self.b = nn.Conv2d(8, 16, 3, stride=2, padding=(1, 0), groups=8, bias=False)\n"
        "self.e = nn.Conv2d(16, 16, (3, 2), dilation=2, groups=16)\nself.d = nn.Conv2d(16, 6, 1)"),
    "gates of channels": program(
        "a, b, c = self.c(x).split([3, 4, 5], 1)\ny = F.glu(self.d(x), 1)\n"
        "return torch.tanh(a) * 2, b.sigmoid() * y + 1, self.d(c).relu() + 1",
        "torch.randn(2, 5, 30, 32)", "self.c = nn.Conv2d(5, 12, 3, padding=1)\nself.d = nn.Conv2d(5, 8, 3, padding=1)"),
    "parts of channels, alone": program(
        "a, b = self.c(x).split([5, 7], 1)\nreturn torch.cos(b), torch.tanh(a), b.relu() + 2", "torch.randn(2, 5, 18, 20)",
        "self.c = nn.Conv2d(5, 12, 3, padding=1)"),
    "depthwise in one dimension": program(
        "return self.d(F.silu(self.a(F.pad(self.c(x), (3, 0))))) + 1", "torch.randn(3, 5, 60)",
        "self.c = nn.Conv1d(5, 12, 1)\nself.a = nn.Conv1d(12, 12, 4, groups=12)\nself.d = nn.Conv1d(12, 7, 1)"),
    "softmax over channels": program(
        "return torch.softmax(self.c(x), dim=1) * 2", "torch.randn(2, 4, 20, 20)", "self.c = nn.Conv2d(4, 12, 3)"),
    "norm of a sequence": program(
        "return F.relu(self.n(self.c(x)))", "torch.randn(4, 8, 300)",
        "self.c = nn.Conv1d(8, 40, 3)\nself.n = nn.BatchNorm1d(40)"),
    "softmax of few long rows": program(
        "return torch.softmax(self.c(x).permute(1, 0, 2, 3).reshape(24, -1), dim=1) * 3", "torch.randn(4, 8, 40, 40)",
        "self.c = nn.Conv2d(8, 24, 3)"),
    "smallest of the channels": program(
        "return torch.tanh(torch.tanh(self.c(x).amin(dim=1, keepdim=True))), self.c(x).mean((2, 3), keepdim=True)",
        "torch.randn(4, 6, 20, 20)", "self.c = nn.Conv2d(6, 16, 3)"),
}  # fmt: skip
FAST_KERNELS = Ceilings(2e12, 20e12, "sm_90", 5e-6, 1e-7)


def main() -> None:
    statistics.LEAST = 0
    for name, source in PROGRAMS.items():
        torch.manual_seed(1)
        space: dict[str, Any] = {"__name__": "reference"}
        exec(compile(source, "reference.py", "exec"), space)
        model = space["Model"]()
        graph, reason = capture(model, tuple(space["get_inputs"]()), "as-constructed")
        assert graph is not None, reason
        for number, way in enumerate(find_ways(Graph.model_validate(graph), FAST_KERNELS)):
            if all(r.kind == REPLAY for r in way.regions):
                continue
            answer = played(source, way, model, space["get_inputs"]())
            print(json.dumps({"name": name, "way": ["as captured", "channels last"][number]} | answer), flush=True)


def played(source: str, way: Way, model: Any, inputs: list[Any]) -> dict[str, Any]:
    """What became of a program: is it right, laid out as eager's, and did its state move as eager's?"""
    regions = [r for r in way.regions if r.kind != REPLAY]
    files = write_candidate(source, "Model", way.view, regions, "as-constructed", "sm_90")
    module = built(on_cpu(files).files)
    new, wide = module.ModelNew(), copy.deepcopy(model).double()
    new.load_state_dict(model.state_dict())
    old, calls = copy.deepcopy(model), []
    module.Model.forward = lambda self, *args: calls.append(1)
    right, layout, ratio = True, True, 0.0
    with torch.no_grad():
        for _ in range(2):
            for a, b, t in zip(
                leaves(new(*inputs)), leaves(old(*inputs)), leaves(wide(*[x.double() for x in inputs])), strict=True
            ):
                layout = layout and a.shape == b.shape and a.stride() == b.stride()
                ratio = max(ratio, error(a, t) / max(error(b, t), 1e-7))
            for a, b, t in zip(new.buffers(), old.buffers(), wide.buffers(), strict=True):
                if a.is_floating_point():
                    ratio = max(ratio, error(a, t) / max(error(b, t), 1e-7))
                else:
                    right = right and bool((a == b).all())
        follows = replaced(new, old, inputs)
    return {
        "right": right, "follows": follows, "layout": layout, "ratio": ratio, "fell_back": len(calls), "files": files.files,
        "kinds": [r.kind for r in regions], "ops": [r.ops for r in regions],
    }  # fmt: skip


def replaced(new: Any, old: Any, inputs: list[Any]) -> bool:
    """Whether a module that was replaced, weights that were, and a copy of the program count at the next call."""
    right = True
    for change in ("module", "weights", "copy"):
        first = next(name for name, _ in old.named_children())
        for one in (new, old):
            child = getattr(one, first)
            if change == "module":
                setattr(one, first, copy.deepcopy(child))
            if change != "copy":
                getattr(one, first).weight = torch.nn.Parameter(1.5 * getattr(one, first).weight)
        if change == "copy":
            new = copy.deepcopy(new)
            for one in (new, old):
                getattr(one, first).weight.mul_(0.5)
        pairs = zip(leaves(new(*inputs)), leaves(old(*inputs)), strict=True)
        right = right and all(torch.allclose(a, b, rtol=1e-3, atol=1e-4) for a, b in pairs)
    return right


def built(files: dict[str, str]) -> Any:
    """The module of a candidate for CPU tensors."""
    with tempfile.TemporaryDirectory() as folder:
        for path, text in files.items():
            (Path(folder) / path).parent.mkdir(exist_ok=True)
            (Path(folder) / path).write_text(text)
        sources = [str(path) for path in Path(folder).glob("kernels/*.cpp")]
        command = ["g++", "-std=c++17", "-O1", "-shared", "-fPIC", "-o", f"{folder}/libkernels.so"]
        if sources:
            subprocess.run([*command, *sources], check=True)
        spec = importlib.util.spec_from_file_location(f"candidate_{Path(folder).name}", f"{folder}/model_new.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module


def leaves(value: Any) -> list[Any]:
    return [value] if isinstance(value, torch.Tensor) else [leaf for item in value for leaf in leaves(item)]


def error(value: Any, truth: Any) -> float:
    """Root mean square error relative to the truth's own size."""
    return float((value.double() - truth).square().mean().sqrt() / truth.square().mean().sqrt())


if __name__ == "__main__":
    main()
