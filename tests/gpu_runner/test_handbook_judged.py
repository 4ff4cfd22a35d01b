"""Kernels of the handbook as somebody's program: built, checked and timed by the hands against what their page says they do.

That each kernel is right is `tests/agents/test_handbook_kernels.py`'s; here they go the way of every candidate.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from agents.handbook import pages
from gpu_runner.contracts import (
    PROTOCOLS,
    BuildReport,
    BuildTask,
    CandidateFiles,
    CheckReport,
    CheckTask,
    Source,
    TimeTask,
    TimingReport,
)
from gpu_runner.device import cuda_target

REFERENCE = """
import torch
from torch.nn import functional as F
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        {state}
    def forward(self, {names}):
        return {body}
def get_inputs():
    return [torch.randn({shape}) for _ in range({count})]
"""


@dataclass(frozen=True)
class Case:
    """A page and the program that its kernel is: `inputs` of one shape each, `arguments` as entry.json names them."""

    page: str
    inputs: tuple[str, ...]
    shape: tuple[int, int]
    state: str
    body: str
    arguments: tuple[Any, ...]

    @property
    def reference(self) -> Source:
        names, shape = ", ".join(self.inputs), ", ".join(map(str, self.shape))
        text = REFERENCE.format(state=self.state, names=names, body=self.body, shape=shape, count=len(self.inputs))
        return Source(text=text)

    def candidate(self, gpu: bool) -> CandidateFiles:
        tensor = {"dtype": "float32", "shape": ["rows", "columns"]}
        entry = {
            "symbol": self.page.replace("-", "_"),
            "inputs": [{"name": name} | tensor for name in self.inputs],
            "outputs": [{"name": "out"} | tensor],
            "arguments": [*self.arguments, "stream"] if gpu else [*self.arguments],
            "status": gpu,
        }
        kernel = next(page.kernel for page in pages() if page.name == self.page)
        return CandidateFiles(files={"entry.json": json.dumps(entry), f"kernels/page.{'cu' if gpu else 'cpp'}": kernel})


ROWS, COLUMNS = {"size": "rows"}, {"size": "columns"}
X, OUT = {"input": "x"}, {"output": "out"}
NORM = ({"weight": "norm.weight"}, {"weight": "norm.bias"})
ON_GPU = (
    Case("online-softmax", ("x",), (4096, 1024), "pass", "torch.softmax(x, 1)", (X, OUT, ROWS, COLUMNS)),
    Case(
        "layer-norm", ("x", "residual"), (4096, 1024), "self.norm = torch.nn.LayerNorm(1024)", "self.norm(x + residual)",
        (X, {"input": "residual"}, *NORM, OUT, ROWS, COLUMNS, {"float": 1e-5}),
    ),
    Case(
        "rms-norm", ("x",), (4096, 4096), "self.norm = torch.nn.RMSNorm(4096, eps=1e-6)", "self.norm(x)",
        (X, {"weight": "norm.weight"}, OUT, ROWS, COLUMNS, {"float": 1e-6}),
    ),
)  # fmt: skip
ON_PROCESSORS = (
    Case(
        "cpu-softmax", ("x",), (512, 1024), "pass", "torch.softmax(x, 1)", (X, OUT, ROWS, COLUMNS, {"float": 1.0})
    ),
)  # fmt: skip


def judged(hands: Any, case: Case, target: str) -> None:
    files = case.candidate(gpu=target != "cpu")
    built = hands.perform(BuildTask(target=target, candidate=files))
    assert isinstance(built, BuildReport)
    assert built.ok, built.diagnostics or built.log
    given = {"target": target, "source": case.reference, "candidate": files, "protocol": PROTOCOLS["quick"]}
    check = hands.perform(CheckTask(**given, require_own_kernels=True))
    assert isinstance(check, CheckReport)
    assert check.verdict == "verified", (check.sentence, check.log)
    assert check.coverage is not None
    assert check.coverage > 0.5  # on a processor the call itself counts, too
    timing = hands.perform(TimeTask(**given))
    assert isinstance(timing, TimingReport)
    assert timing.verdict is None, timing.sentence
    assert timing.over_eager is not None
    arms = {arm.arm: arm.median_ms for arm in timing.arms}
    print(f"{case.page}: eager {arms['eager']:.4f} ms, the page's kernel {arms['candidate']:.4f} ms")
    assert arms["candidate"] > 0


@pytest.mark.gpu
@pytest.mark.parametrize("case", ON_GPU, ids=lambda case: case.page)
def test_a_kernel_for_gpus_is_a_program_that_is_verified_and_timed(hands: Any, case: Case) -> None:
    target = cuda_target()
    assert target is not None, "this test needs an NVIDIA GPU"
    judged(hands, case, target)


@pytest.mark.parametrize("case", ON_PROCESSORS, ids=lambda case: case.page)
def test_a_kernel_for_processors_is_a_program_that_is_verified_and_timed(hands: Any, case: Case) -> None:
    judged(hands, case, "cpu")
