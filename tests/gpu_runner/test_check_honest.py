"""Programs whose values take many forms, and what stands beside a verdict. More honest programs: tests/hacks."""

from __future__ import annotations

import pytest

from gpu_runner.contracts import Label, Mode
from tests.gpu_runner.programs import PLAIN, REFERENCE


def as_candidate(reference: str) -> str:
    return reference.replace("class Model(", "class ModelNew(").replace("super(Model", "super(ModelNew")


def test_a_right_program_is_verified_and_every_group_of_checks_is_shown(check):
    report = check(REFERENCE, PLAIN, protocol="strict")
    assert report.verdict == "verified", (report.sentence, report.log, [r for r in report.rows if r.passed is False])
    assert report.coverage == 0.0
    assert Label.NO_OWN_KERNELS in report.labels
    assert Label.REDUCED_PRECISION not in report.labels
    assert {row.group for row in report.rows} == {"declared", "structured", "state", "honesty", "reach"}


FORMS = {
    "a tuple, a dict, None and a number": """
import torch
class Model(torch.nn.Module):
    def forward(self, x, k):
        return {"sum": x.sum(-1), "parts": (x * 2, [None, k])}
def get_inputs():
    return [torch.randn(8, 16), 3]
""",
    "integers and booleans": """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x.argsort(-1), x > 0, (x * 4).to(torch.int8)
def get_inputs():
    return [torch.randn(8, 16)]
""",
    "complex numbers": """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.fft.fft(x)
def get_inputs():
    return [torch.randn(8, 64)]
""",
    "half precision": """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, -1)
def get_inputs():
    return [torch.randn(8, 64).bfloat16()]
""",
    "infinities where they belong": """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x.masked_fill(x > 0.5, float("-inf")).cumsum(-1)
def get_inputs():
    return [torch.randn(8, 64)]
""",
    "a view of its input": """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x.transpose(0, 1), x + 1
def get_inputs():
    return [torch.randn(8, 64)]
""",
    "inputs that are views themselves": """
import torch
class Model(torch.nn.Module):
    def forward(self, x, y):
        return x @ y + (0 if x.is_contiguous() else 1)
def get_inputs():
    return [torch.randn(64, 8).t(), torch.randn(64, 1).expand(64, 5)]
""",
    "an input changed in place": """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        x.mul_(2)
        return x + 1
def get_inputs():
    return [torch.randn(8, 64)]
""",
    "indices and an embedding": """
import torch
class Model(torch.nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.table = torch.nn.EmbeddingBag(n, d, mode="mean")
    def forward(self, i):
        return self.table(i)
def get_inputs():
    return [torch.randint(0, 100, (16, 12))]
def get_init_inputs():
    return [100, 32]
""",
    "an empty tensor beside a full one": """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x[:0], x.exp()
def get_inputs():
    return [torch.randn(8, 4)]
""",
}


@pytest.mark.parametrize("form", FORMS)
def test_values_of_every_form_can_be_compared(form, check):
    report = check(FORMS[form], as_candidate(FORMS[form]))
    assert report.verdict == "verified", (report.sentence, report.log, [r for r in report.rows if r.passed is False])


def test_buffers_that_training_changes_are_compared(check):
    reference = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(32)
    def forward(self, x):
        return torch.relu(self.norm(x))
def get_inputs():
    return [torch.randn(64, 32) * 3 + 1]
"""
    assert check(reference, as_candidate(reference), mode=Mode.TRAIN).verdict == "verified"
    forgetful = """
import torch
class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(32)
    def forward(self, x):
        return torch.relu(torch.nn.functional.batch_norm(x, None, None, self.norm.weight, self.norm.bias, True))
"""
    report = check(reference, forgetful, mode=Mode.TRAIN)
    assert report.verdict == "incorrect"
    assert "buffer" in report.sentence


def test_kernels_of_its_own_are_built_called_and_measured(check):
    reference = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2 + 1
def get_inputs():
    return [torch.randn(512, 512)]
"""
    candidate = """
import ctypes
from pathlib import Path
import torch

_kernels = ctypes.CDLL(str(Path(__file__).with_name("libkernels.so")))
_kernels.twice_plus_one.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]

class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        _kernels.twice_plus_one(x.data_ptr(), y.data_ptr(), x.numel())
        return y
"""
    kernel = """
#include <cstdint>
extern "C" void twice_plus_one(const float* x, float* y, int64_t n) {
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] * 2.0f + 1.0f;
}
"""
    report = check(reference, candidate, kernels={"kernels/twice.cpp": kernel})
    assert report.verdict == "verified", (report.sentence, report.log)
    assert report.coverage is not None
    assert 0.05 < report.coverage <= 1.0
    assert Label.NO_OWN_KERNELS not in report.labels
    broken = check(reference, candidate, kernels={"kernels/twice.cpp": kernel.replace("int64_t n", "int64_t")})
    assert broken.verdict == "build-failed"


def test_a_shortcut_that_only_holds_for_the_declared_inputs_is_input_specialised(check):
    reference = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) * 1.5
def get_inputs():
    return [torch.rand(32, 64)]
"""
    shortcut = """
import torch
class ModelNew(torch.nn.Module):
    def forward(self, x):
        return x * 1.5
"""
    assert check(reference, shortcut, protocol="quick").verdict == "verified"
    report = check(reference, shortcut, protocol="strict")
    assert report.verdict == "input-specialised"
    assert "sign-mixed" in report.sentence


def test_a_lower_precision_is_named(check):
    reference = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(256, 256, bias=False)
    def forward(self, x):
        return self.linear(x)
def get_inputs():
    return [torch.randn(64, 256)]
"""
    careless = as_candidate(reference).replace(
        "return self.linear(x)",
        "return torch.nn.functional.linear(x, self.linear.weight * (1 + 2e-5))",
    )
    report = check(reference, careless)
    assert report.verdict == "verified", report.sentence
    assert Label.REDUCED_PRECISION in report.labels


def test_a_degenerate_program_is_said_to_be_one(check):
    reference = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x.sum(-1, keepdim=True), -1)
def get_inputs():
    return [torch.randn(16, 64)]
"""
    report = check(reference, as_candidate(reference))
    assert report.verdict == "verified"
    assert Label.DEGENERATE in report.labels


def test_a_reference_that_draws_random_numbers_is_refused_where_they_are_live(check):
    reference = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = torch.nn.Dropout(0.5)
    def forward(self, x):
        return self.drop(x)
def get_inputs():
    return [torch.randn(16, 64)]
"""
    report = check(reference, as_candidate(reference), mode=Mode.TRAIN)
    assert report.verdict == "refused"
    assert "dropout is live" in report.sentence
    assert check(reference, as_candidate(reference)).verdict == "verified"


def test_a_reference_that_cannot_run_is_refused_not_judged(check):
    report = check("class Model: pass\n", PLAIN)
    assert report.verdict == "refused"
    assert "nn.Module" in report.sentence
