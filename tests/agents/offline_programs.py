"""Small references of every family, and the child process that has them captured, rewritten, built, loaded and compared.

Run as a script (it imports torch, which the tests must not): prints one JSON line per program.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n\n"


def program(body: str, inputs: str, init: str = "", arguments: str = "x") -> str:
    """A reference: `init` and `body` are lines of __init__ and forward."""
    lines = [HEAD + "class Model(nn.Module):", "    def __init__(self):", "        super().__init__()"]
    lines += [f"        {line}" for line in init.splitlines() if line]
    lines += ["", f"    def forward(self, {arguments}):"] + [f"        {line}" for line in body.splitlines()]
    lines += ["", "", "def get_inputs():", f"    return [{inputs}]", "", "", "def get_init_inputs():", "    return []", ""]
    return "\n".join(lines)


PROGRAMS: dict[str, str] = {
    "pointwise with broadcasting": program(
        "g = torch.sigmoid(y * self.w)\nreturn torch.tanh(x) * g + F.leaky_relu(x - y, 0.2).clamp(-1, 1)",
        "torch.randn(64, 1, 96), torch.randn(33, 96)", "self.w = nn.Parameter(torch.randn(96))", "x, y"),
    "pointwise on a transposed operand": program(
        "return F.silu(x.t() * 2 + y).exp()", "torch.randn(96, 70), torch.randn(70, 96)", "", "x, y"),
    "many activations": program(
        "a = F.softplus(x) + F.elu(x) + F.mish(x)\nb = F.hardswish(x) * F.hardsigmoid(x) - F.gelu(x, approximate='tanh')\n"
        "return torch.where(x > 0, a, b) + torch.log1p(x.abs()) + torch.expm1(-x.abs()) + x.pow(3) + (x * x + 1).rsqrt()",
        "2 * torch.randn(64, 257)"),
    "layer norm and gelu": program("return F.gelu(self.n(x))", "torch.randn(6, 50, 130)", "self.n = nn.LayerNorm(130)"),
    "rms norm of a residual": program(
        "r = x + y\nv = r.pow(2).mean(-1, keepdim=True)\nreturn self.w * (r * torch.rsqrt(v + 1e-6)), r",
        "torch.randn(40, 200), torch.randn(40, 200)", "self.w = nn.Parameter(torch.ones(200))", "x, y"),
    "group norm, scale and silu": program(
        "s = self.p(t)[:, :, None, None]\nreturn F.silu(self.n(x) * (1 + s))", "torch.randn(3, 24, 9, 11), torch.randn(3, 16)",
        "self.n = nn.GroupNorm(6, 24)\nself.p = nn.Linear(16, 24)", "x, t"),
    "batch norm and relu": program("return F.relu(self.n(x)) + x", "torch.randn(5, 16, 12, 13)", "self.n = nn.BatchNorm2d(16)"),
    "masked softmax": program(
        "s = x * 0.125\ns = s.masked_fill(m == 0, float('-inf'))\nreturn F.softmax(s, dim=-1)",
        "torch.randn(4, 3, 40, 40), torch.tril(torch.ones(40, 40))", "", "x, m"),
    "softmax over channels": program("return F.softmax(x * 2, dim=1) * x", "torch.randn(3, 20, 8, 9)"),
    "log softmax and its sum": program("y = F.log_softmax(x + 1, dim=-1)\nreturn y, y.exp().sum(-1)", "torch.randn(60, 300)"),
    "statistics of rows": program(
        "spread = x.std(-1, unbiased=False)\n"
        "return {'var': x.var(-1), 'std': spread, 'top': x.amax(-1), 'least': x.amin(-1), 'lse': x.logsumexp(-1)}",
        "torch.randn(128, 150) + 3"),
    "sum over a middle dimension": program(
        "return (x * w.unsqueeze(-1)).sum(dim=1) * 0.5", "torch.randn(30, 7, 64), torch.rand(30, 7)", "", "x, w"),
    "sum over the first dimension": program("return (x * x).sum(0).sqrt() + 1", "torch.randn(50, 256)"),
    "mean of everything": program("return ((x - y) ** 2).mean()", "torch.randn(100, 301), torch.randn(100, 301)", "", "x, y"),
    "cross entropy with ignored rows": program(
        "return F.cross_entropy(x, t) + 1e-3 * torch.logsumexp(x, -1).pow(2).mean()",
        "4 * torch.randn(70, 90), torch.randint(0, 90, (70,)).masked_fill(torch.arange(70) % 7 == 0, -100)", "", "x, t"),
    "embedding and weighted sum": program(
        "return (self.e(i) * w.softmax(-1).unsqueeze(-1)).sum(1)", "torch.randint(0, 50, (40, 6)), torch.randn(40, 6)",
        "self.e = nn.Embedding(50, 32)", "i, w"),
    "linear, gelu and residual": program("return x + self.b(F.gelu(self.a(x)))", "torch.randn(7, 30, 40)",
        "self.a = nn.Linear(40, 100)\nself.b = nn.Linear(100, 40)"),
    "linear without bias, long sums": program(
        "return F.relu(self.a(x)) * 0.5", "torch.randn(100, 900)", "self.a = nn.Linear(900, 33, bias=False)"),
    "linear alone, with and without bias": program(
        "return self.a(x), self.b(x)", "torch.randn(9, 7, 70)",
        "self.a = nn.Linear(70, 50)\nself.b = nn.Linear(70, 16, bias=False)"),
    "linear, transposed after": program(
        "return self.a(x).transpose(0, 1).contiguous() * 2", "torch.randn(7, 30, 40)", "self.a = nn.Linear(40, 64)"),
    "linear of odd sizes with every edge": program(
        "return F.silu(self.a(x)) + 1", "torch.randn(53, 531)", "self.a = nn.Linear(531, 301)"),
    "pointwise convolution, norm and silu": program("return x + F.silu(self.n(self.c(x)))", "torch.randn(3, 20, 9, 13)",
        "self.c = nn.Conv2d(20, 20, 1, bias=False)\nself.n = nn.BatchNorm2d(20)"),
    "depthwise convolution with stride": program("return F.relu6(self.c(x))", "torch.randn(2, 12, 15, 18)",
        "self.c = nn.Conv2d(12, 12, 3, stride=2, padding=1, groups=12)"),
    "convolution, norm and relu": program("return F.relu(self.n(self.c(x)))", "torch.randn(2, 8, 14, 14)",
        "self.c = nn.Conv2d(8, 16, 5, padding=2)\nself.n = nn.BatchNorm2d(16)"),
    "winograd convolution, norm and residual": program("return F.relu(x + self.n(self.c(x)))", "torch.randn(2, 19, 15, 71)",
        "self.c = nn.Conv2d(19, 19, 3, padding=1)\nself.n = nn.BatchNorm2d(19)"),
    "winograd convolution of short rows": program(
        "return self.c(x)", "torch.randn(1, 40, 9, 11)", "self.c = nn.Conv2d(40, 33, 3, bias=False)"),
    "winograd convolution padded in height alone": program(
        "return F.silu(self.c(x))", "torch.randn(1, 16, 4, 29)", "self.c = nn.Conv2d(16, 17, 3, padding=(2, 0))"),
    "winograd convolution of numbers that would overflow": program(
        "return self.c(x * s)", "torch.randn(1, 16, 8, 8), torch.full((), 1e37)",
        "self.c = nn.Conv2d(16, 16, 3, padding=1)", "x, s"),
    "lstm with its states": program(
        "y, (h, c) = self.r(x)\nreturn y, h, c", "torch.randn(5, 9, 20)",
        "self.r = nn.LSTM(20, 32, num_layers=2, batch_first=True)"),
    "gru, last step": program("y, h = self.r(x)\nreturn y[-1] + h[0]", "torch.randn(9, 70, 16)", "self.r = nn.GRU(16, 48)"),
    "lstm of odd sizes": program("y, _ = self.r(x)\nreturn y", "torch.randn(3, 6, 401)", "self.r = nn.LSTM(401, 37)"),
    "an unrolled recurrence": program(
        "s = x.new_zeros(2, 3, 24, 24)\nys = []\nfor i in range(6):\n"
        "    s = torch.sigmoid(g[:, i, :, None, None]) * s + x[:, i, :, :, None] * v[:, i, :, None, :]\n"
        "    ys.append((x[:, i, :, None, :] @ s).squeeze(-2))\nreturn torch.stack(ys, 1)",
        "torch.randn(2, 6, 3, 24), torch.randn(2, 6, 3, 24), torch.randn(2, 6, 3)", "", "x, v, g"),
    "a constant inside": program("return F.gelu(x) * torch.tensor([1.0, 2.0, 3.0]) + x", "torch.randn(5000, 3)"),
}  # fmt: skip

TRAIN: dict[str, str] = {"batch norm in training": PROGRAMS["batch norm and relu"]}


def run(name: str, source: str, mode: str, target: str = "cpu") -> dict[str, Any]:
    """Everything that the tests ask about one program. Kernels for a GPU are played on the CPU, without graph replay."""
    import copy

    import torch

    from agents.engineers.offline.coder import write_candidate
    from agents.engineers.offline.costs import Ceilings
    from agents.engineers.offline.graph import View
    from agents.engineers.offline.opportunities import find_regions
    from agents.engineers.offline.regions import REPLAY
    from gpu_runner.child.capture import capture
    from gpu_runner.contracts import Graph
    from tests.agents.cuda_on_cpu import on_cpu

    torch.manual_seed(1)
    space: dict[str, Any] = {"__name__": "reference"}
    exec(compile(source, "reference.py", "exec"), space)
    model = space["Model"]().train(mode == "train")
    for parameter in model.parameters():
        parameter.data.add_(0.1 * torch.randn_like(parameter))
    inputs = space["get_inputs"]()
    graph, reason = capture(model, tuple(inputs), mode)
    if graph is None:
        return {"name": name, "reason": reason}
    view = View(Graph.model_validate(graph))
    ceilings = Ceilings() if target == "cpu" else Ceilings(2e12, 20e12, target, 5e-6, 1e-6)
    regions = [r for r in find_regions(view, ceilings) if r.kind != REPLAY]
    files = write_candidate(source, "Model", view, regions, mode, target)
    if target != "cpu":
        files = on_cpu(files)
    with tempfile.TemporaryDirectory() as folder:
        for path, text in files.files.items():
            target = Path(folder) / path
            target.parent.mkdir(exist_ok=True)
            target.write_text(text)
        built = [str(Path(folder) / path) for path in files.kernel_sources]
        flags = [
            f if f != "-O3" else "-O2" for f in files.manifest.flags
        ]  # quicker to build; vectorised loops are not the subject
        subprocess.run(["g++", *flags, "-shared", "-fPIC", "-o", f"{folder}/libkernels.so", *built], check=True)
        spec = importlib.util.spec_from_file_location(f"candidate_{abs(hash(name))}", f"{folder}/model_new.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    new = module.ModelNew().train(mode == "train")
    new.load_state_dict(model.state_dict())
    answer: dict[str, Any] = {"name": name, "kinds": sorted({r.kind for r in regions}), "files": sorted(files.files)}
    answer["launches"] = [line for text in files.files.values() for line in text.splitlines() if "return half_split::" in line]
    calls = {"reference": 0}
    plain = module.Model.forward

    def counted(self: Any, *args: Any) -> Any:
        calls["reference"] += 1
        return plain(self, *args)

    module.Model.forward = counted
    with torch.no_grad():
        truth_model = copy.deepcopy(model).double()
        double = [x.double() if x.is_floating_point() else x for x in inputs]
        before = copy.deepcopy(model.state_dict())
        eager, ours, truth = _leaves(model(*inputs)), _leaves(new(*inputs)), _leaves(truth_model(*double))
        answer["fell_back"] = calls["reference"]
        answer["layout"] = [
            (list(a.shape), list(a.stride())) == (list(b.shape), list(b.stride())) for a, b in zip(eager, ours, strict=True)
        ]
        answer["error"] = [_error(b, t) / max(_error(a, t), 1e-8) for a, b, t in zip(eager, ours, truth, strict=True)]
        answer["state"] = max(
            [float((a.double() - b.double()).abs().max()) for a, b in zip(model.buffers(), new.buffers(), strict=True)] or [0.0]
        )
        answer["state_moved"] = any(not torch.equal(before[k], v) for k, v in model.state_dict().items())
        # Weights that change after construction count at once.
        for a, b in zip(model.parameters(), new.parameters(), strict=True):
            a.mul_(1.5)
            b.mul_(1.5)
        answer["new_weights"] = all(
            torch.allclose(a, b, rtol=1e-3, atol=1e-4)
            for a, b in zip(_leaves(model(*inputs)), _leaves(new(*inputs)), strict=True)
        )
        # Inputs laid out otherwise are right too, by the reference's own way.
        odd = [torch.stack([x, x], -1)[..., 0] if x.dim() else x for x in inputs]
        calls["reference"] = 0
        answer["odd_layout"] = all(
            torch.allclose(a, b, rtol=1e-3, atol=1e-4) for a, b in zip(_leaves(model(*odd)), _leaves(new(*odd)), strict=True)
        )
        answer["odd_fell_back"] = calls["reference"] == 1
        bad = [x.clone() for x in inputs]
        if bad[0].is_floating_point():
            bad[0].view(-1)[3] = float("nan")
            bad[0].view(-1)[7] = float("inf")
        truth_model.load_state_dict(model.state_dict())
        answer["not_finite"] = all(
            _agree(a, b, t)
            for a, b, t in zip(
                _leaves(model(*bad)),
                _leaves(new(*bad)),
                _leaves(truth_model(*[x.double() if x.is_floating_point() else x for x in bad])),
                strict=True,
            )
        )
    return answer


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in _leaves(item)]
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in _leaves(item)]
    return [value]


def _agree(eager: Any, ours: Any, wide: Any) -> bool:
    """NaN and infinity in the same places, but where eager contradicts itself in float64 (GELU of inf)."""
    same = (eager.isnan() == ours.isnan()) & (eager.isinf() == ours.isinf())
    contradicted = (eager.isnan() != wide.isnan()) | (eager.isinf() != wide.isinf())
    return bool((same | contradicted).all())


def _error(value: Any, truth: Any) -> float:
    """Root mean square error relative to the truth's own size."""
    scale = float(truth.double().pow(2).mean().sqrt()) or 1.0
    return float((value.double() - truth.double()).pow(2).mean().sqrt()) / scale


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    for programs, how in ((PROGRAMS, "eval"), (TRAIN, "train")):
        for label, text in programs.items():
            try:
                result = run(label, text, how)
            except Exception as error:
                result = {"name": label, "error_text": f"{type(error).__name__}: {error}"}
            print(json.dumps(result), flush=True)
