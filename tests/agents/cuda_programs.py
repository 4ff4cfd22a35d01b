"""Captures programs without data and writes their candidates for a GPU. Prints one JSON line per program and target; then one
for each program whose kernels are played on the CPU and held to their reference.

Run as a script (it imports torch, which the tests must not).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch

from agents.engineers.offline import attention, split_products
from agents.engineers.offline.coder import write_candidate
from agents.engineers.offline.costs import Ceilings
from agents.engineers.offline.graph import View
from agents.engineers.offline.opportunities import find_regions
from gpu_runner.child.capture import capture
from gpu_runner.contracts import DeviceInfo, Graph
from tests.agents.offline_programs import PROGRAMS as SMALL
from tests.agents.offline_programs import TRAIN, program, run

PROGRAMS = {
    "linear with epilogue": program(
        "return F.gelu(self.a(x)) * self.s + x", "torch.randn(2, 600, 1000)",
        "self.a = nn.Linear(1000, 1000)\nself.s = nn.Parameter(torch.ones(1000))"),
    "both operands turned": program(
        "return torch.relu(x.t() @ y.t())", "torch.randn(900, 1301), torch.randn(1201, 900)", "", "x, y"),
    "norm and loss": program(
        "y = F.relu(self.n(x))\nreturn ((x - t[:, :, None, None]) ** 2).mean(), y",
        "torch.randn(64, 16, 128, 128), torch.randn(64, 16)",
        "self.n = nn.BatchNorm2d(16)", "x, t"),
    "skinny": program("return self.a(x)", "torch.randn(64, 4096)", "self.a = nn.Linear(4096, 4096)"),
    "gapped operand": program("return x[:, ::2] @ y", "torch.randn(1024, 2048), torch.randn(1024, 1024)", "", "x, y"),
    "attention of many heads": program(
        "s = (q @ k.transpose(-2, -1) * 0.125).masked_fill(m == 0, float('-inf'))\nreturn s.softmax(-1) @ v",
        "*(torch.randn(8, 12, 1024, 64) for _ in range(3)), torch.ones(1024, 1024)", "", "q, k, v, m"),
    "scans, windows and rows": program(
        "y = x.cumsum(-1)\nz = F.silu(self.c(x))\n"
        "return y, F.max_pool2d(F.relu(z + 1), 2) + 1, (x / 3).softmax(-1) * 2, x.flip(1).cumprod(1).flip(1)",
        "torch.randn(8, 64, 256, 256)", "self.c = nn.Conv2d(64, 64, 3, padding=1, groups=64, bias=False)"),
    "many small": program("for _ in range(6):\n    x = torch.sin(x) + 1\nreturn x", "torch.randn(8, 8)"),
    "changes its input": program(
        "x.add_(1)\nx.mul_(2)\nx.sub_(y)\nreturn x.sum()", "torch.randn(8, 8), torch.randn(8, 8)", "", "x, y"),
}  # fmt: skip
PLAYED = (
    "pointwise with broadcasting", "layer norm and gelu", "group norm, scale and silu", "softmax over channels",
    "log softmax and its sum", "statistics of rows", "batch norm in training", "cross entropy with ignored rows",
)  # fmt: skip
LONG = {
    "rotated by halves": program(
        "a, b = x.chunk(2, dim=-1)\nreturn x * self.c + torch.cat([-b, a], dim=-1) * self.s", "torch.randn(3, 40, 64)",
        "self.c = nn.Parameter(torch.randn(40, 64))\nself.s = nn.Parameter(torch.randn(40, 64))"),
    "joined channels, normalised": program(
        "y = torch.cat([x, F.relu(y), z], dim=1)\nreturn F.relu(self.n(y)), y",
        "torch.randn(2, 5, 30, 30), torch.randn(2, 9, 30, 30), torch.randn(2, 2, 30, 30)",
        "self.n = nn.LayerNorm((16, 30, 30))", "x, y, z"),
    "joined and turned around": program(
        "return torch.cat([x.permute(0, 3, 1, 2), F.relu(y).permute(0, 3, 1, 2)], 1).contiguous() * 2",
        "torch.randn(2, 40, 33, 30), torch.randn(2, 40, 33, 45)", "", "x, y"),
    "joined rows, summed": program(
        "y = torch.cat([x * 2, y], dim=0)\nreturn y.softmax(-1) + torch.relu(y)",
        "torch.randn(70, 200), torch.randn(33, 200)", "", "x, y"),
    "losses of pairs": program(
        "return ((1 - torch.sigmoid(x)) ** 2 * F.binary_cross_entropy_with_logits(x, y.sigmoid(), reduction='none')).mean(), "
        "F.smooth_l1_loss(x, y, beta=0.5, reduction='none').mean(1), F.huber_loss(x, y, delta=2.0), F.mse_loss(x, y), "
        "F.l1_loss(x, y, reduction='sum')", "4 * torch.randn(300, 150), torch.randn(300, 150)", "", "x, y"),
    "rows of registers": program(
        "p = torch.softmax(x / 1.7, dim=-1)\nreturn p, -(p * torch.log(p + 1e-9)).sum(dim=-1)", "torch.randn(50, 5000)"),
    "columns of registers": program(
        "return x * torch.rsqrt(x.square().mean(dim=1, keepdim=True) + 1e-5) * self.s", "torch.randn(12, 48, 30, 31)",
        "self.s = nn.Parameter(torch.randn(48, 1, 1))"),
    "few long rows in training": program(
        "return F.relu(self.n(x)) + x", "torch.randn(4, 8, 40, 40)", "self.n = nn.BatchNorm2d(8)"),
    "windows side by side": program(
        "return F.relu(F.max_pool2d(x + self.b, 2)) - 1, F.avg_pool2d(x * 2, (2, 4)) + 1, F.avg_pool1d(x[0].sigmoid(), 2) * 3",
        "torch.randn(2, 16, 64, 64)", "self.b = nn.Parameter(torch.randn(16, 1, 1))"),
    "neighbours in rows and in losses": program(
        "y = self.n(x)\nreturn F.gelu(y) + self.p, (x / 1.7).softmax(-1).log().mean(), x[:7] * y.sum(-1, keepdim=True)[:7]",
        "torch.randn(20, 3, 2048)",
        "self.n = nn.LayerNorm(2048)\nself.p = nn.Parameter(torch.randn(3, 1))"),
    "begins anywhere": program(
        "y = x.view(-1)[1:40001].view(100, 400)\nreturn torch.tanh(y) * 2 + x.view(-1)[:40000].view(100, 400), "
        "y.softmax(-1) + 1", "torch.randn(210, 200)"),
    "running sums and products": program(
        "return x.cumsum(-1), (0.9 + x / 100).flip(1).cumprod(1).flip(1), x.view(10, 100, 90, 5).cumsum(2), "
        "y.flip(1).cumsum(1).flip(1)",
        "torch.randn(300, 1500), torch.randn(100, 90, 100)", "", "x, y"),
    "running sums of all lengths": program(
        "return x[0].cumsum(-1), y.cumsum(-1), z.view(-1)[1:90001].view(300, 300).cumsum(-1), z.cumsum(1)",
        "torch.randn(1, 270, 5003), torch.randn(280, 77), torch.randn(301, 300)", "", "x, y, z"),
    "picked rows": program(
        "return F.layer_norm(self.e(x) + self.p, (256,)), torch.relu(self.e(x)) * 2", "torch.randint(0, 30, (40, 20))",
        "self.e = nn.Embedding(30, 256)\nself.p = nn.Parameter(torch.randn(20, 256))"),
    "whole images": program("return self.n(x) * 2", "torch.randn(3, 8, 40, 41)", "self.n = nn.LayerNorm((8, 40, 41))"),
}  # fmt: skip
SPLIT = {  # played as split products, though far too small for them
    "scores of heads, scaled and masked": program(
        "q, k = (y.view(2, 40, 3, 20).transpose(1, 2) for y in x.split(60, dim=2))\n"
        "return (q @ k.transpose(-2, -1) / 4).masked_fill(m == 0, -3.0)",
        "torch.randn(2, 40, 120), torch.tril(torch.ones(40, 40))", "", "x, m"),
    "values of heads, then transposed": program(
        "return (p.softmax(-1) @ v).transpose(1, 2).contiguous() * 2", "torch.randn(2, 3, 33, 41), torch.randn(2, 3, 41, 20)",
        "", "p, v"),
    "a right operand for all, and one for each head": program(
        "return x.transpose(1, 2) @ self.w, F.relu(x @ self.h) + 1", "torch.randn(2, 3, 25, 30)",
        "self.w = nn.Parameter(torch.randn(30, 50))\nself.h = nn.Parameter(torch.randn(3, 30, 21))"),
    "added to a batch, with factors": program(
        "return torch.baddbmm(b, x, y.transpose(1, 2), beta=0.5, alpha=2).sigmoid()",
        "torch.randn(1, 40), torch.randn(4, 30, 70), torch.randn(4, 40, 70)", "",
        "b, x, y"),
    "one left operand for a batch": program(
        "return torch.relu(self.w @ x) + 1", "torch.randn(3, 30, 36)", "self.w = nn.Parameter(torch.randn(50, 30))"),
    "linear, transposed after": program(
        "return self.a(x).transpose(0, 1).contiguous() * 2", "torch.randn(7, 30, 40)", "self.a = nn.Linear(40, 64)"),
    "attention as PyTorch has it": program(
        "q, k, v = (y.view(2, 40, 3, 20).transpose(1, 2) for y in x.split(60, dim=2))\n"
        "return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(2, 40, 60)",
        "torch.randn(2, 40, 180)"),
    "attention with a mask and a scale": program(
        "y = F.scaled_dot_product_attention(q, k, v, attn_mask=m > -1, scale=0.3)\n"
        "return y + F.scaled_dot_product_attention(q, k, v, attn_mask=m[:, :, :1])",
        "torch.randn(2, 3, 33, 24), torch.randn(2, 3, 70, 24), torch.randn(2, 3, 70, 16), torch.randn(2, 1, 33, 70)", "",
        "q, k, v, m"),
    "attention written out": program(
        "q, k, v = (y.view(2, 40, 3, 20).transpose(1, 2) for y in x.split(60, dim=2))\n"
        "s = (q @ k.transpose(-2, -1) / 4 + self.bias).masked_fill(m == 0, float('-inf'))\n"
        "return self.drop(s.softmax(-1)) @ v",
        "torch.randn(2, 40, 180), torch.tril(torch.ones(40, 40))",
        "self.bias = nn.Parameter(torch.randn(3, 1, 40))\nself.drop = nn.Dropout(0.1)", "x, m"),
    "attention of one batch": program(
        "return torch.bmm(F.softmax(torch.bmm(q, k.transpose(1, 2)) * 0.2, dim=2), v)",
        "torch.randn(3, 33, 24), torch.randn(3, 70, 24), torch.randn(3, 70, 17)", "", "q, k, v"),
    "two layers, one kernel": program(
        "return F.relu(self.b(F.relu(self.a(x))))", "torch.randn(20, 40)",
        "self.a = nn.Linear(40, 40)\nself.b = nn.Linear(40, 40)"),
    "few tiles and long sums": program("return F.gelu(self.a(x)) + x", "torch.randn(20, 600)", "self.a = nn.Linear(600, 600)"),
}  # fmt: skip
TARGETS = {"sm_90": (4.0e12, 51e12), "sm_80": (1.5e12, 19e12)}


def main() -> None:
    for name, source in PROGRAMS.items():
        space: dict[str, Any] = {"__name__": "reference"}
        exec(compile(source, "reference.py", "exec"), space)
        with torch.device("meta"):
            graph, reason = capture(space["Model"](), tuple(space["get_inputs"]()), "as-constructed")
        assert graph is not None, reason
        view = View(Graph.model_validate(graph))
        for target, (bandwidth, flops) in TARGETS.items():
            device = DeviceInfo(kind="gpu", name="a GPU", target=target, bandwidth_bps=bandwidth, peak_flops=flops)
            regions = find_regions(view, Ceilings.of(device))
            files = write_candidate(source, "Model", view, regions, "as-constructed", target)
            kinds = {r.kind: r.eager_s / r.kernel_s for r in regions}
            print(json.dumps({"name": name, "target": target, "kinds": kinds, "files": files.files}))
    for name in (*PLAYED, *LONG):
        source = {**SMALL, **TRAIN, **LONG}[name]
        mode = "train" if "training" in name else "eval"
        print(json.dumps(run(name, source, mode, "sm_90") | {"target": "played"}))
    for module in (attention, split_products):
        module.LEAST_FLOPS, module.WORTHWHILE = 0.0, float("inf")
    for name, source in SPLIT.items():
        print(json.dumps(run(name, source, "eval", "sm_90") | {"target": "played"}))


if __name__ == "__main__":
    main()
