"""Programs on which a trivial one passes are labelled at upload, with the operation that causes it."""

from __future__ import annotations

import pytest

from gpu_runner.contracts import Label
from gpu_runner.degeneracy import cause

PROGRAM = """
import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {init}

    def forward(self, x):
        {body}

def get_inputs():
    return [{x}]
"""
DEEP = "self.net = nn.Sequential(*[m for _ in range({}) for m in (nn.Linear(64, 64), nn.ReLU())], nn.Linear(64, 8))"

# name: (constructor, forward, inputs, a trivial program that passes, the operation it is because of).
CASES = {
    "softmax over one element": ("pass", "return F.softmax(x.sum(-1, keepdim=True), -1)", "torch.randn(32, 64)", "constant",
                                 "_softmax"),
    "the mean of a softmax": ("pass", "return F.softmax(x, -1).mean(-1)", "torch.randn(32, 64)", "constant", "mean"),
    "minus its mean over one element": (
        "self.fc = nn.Linear(64, 16)", "y = self.fc(x).max(1, keepdim=True).values; return F.gelu(y - y.mean(1, keepdim=True))",
        "torch.randn(32, 64)", "zeros", "sub",
    ),
    "the same row twice": ("pass", "return torch.cat([x, x]) * 2", "torch.randn(16, 64)", "half-batch", "cat"),
    "one number whatever comes": ("pass", "return x.clamp(5, 5) + 1", "torch.randn(32, 64)", "constant", "clamp"),
}  # fmt: skip

# What is no reason: on structured inputs a trivial program is found out.
FINE = {
    "relu of what is never negative": ("pass", "return torch.relu(x)", "torch.rand(32, 64)"),
    "softmax over many": ("pass", "return F.softmax(x, -1)", "torch.randn(4, 65536)"),
    "a layer": ("self.fc = nn.Linear(64, 64)", "return self.fc(x)", "torch.randn(32, 64)"),
}


def written(init: str, body: str, x: str) -> str:
    return PROGRAM.format(init=init, body=body, x=x)


@pytest.mark.parametrize("name", CASES)
def test_a_degenerate_program_is_labelled_with_what_makes_it_so(name, analyse):
    init, body, x, null, op = CASES[name]
    report = analyse(written(init, body, x))
    assert report.refusal is None
    assert null in report.nulls, (report.nulls, report.null_cause)
    assert Label.DEGENERATE in report.labels
    assert f"(because of aten::{op})" in report.null_cause
    assert any(report.null_cause in warning for warning in report.warnings)


def test_a_network_so_deep_that_rounding_hides_its_input_is_labelled_too(analyse):
    report = analyse(written(DEEP.format(40), "return self.net(x)", "torch.rand(32, 64)"))
    assert Label.DEGENERATE in report.labels
    assert "(because of aten::" in report.null_cause


def test_one_less_deep_can_be_verified_here_and_not_by_a_tolerance_on_its_size(analyse, check):
    text = written(DEEP.format(12), "return self.net(x)", "torch.rand(32, 64)")
    assert analyse(text).nulls == ()
    blind = text.replace("class Model(", "class ModelNew(").replace("self.net(x)", "self.net(torch.full_like(x, 0.5))")
    assert check(text, blind).verdict == "incorrect"
    assert check(text, blind, protocol="kernelbench").verdict == "verified"
    said = analyse(text, protocol="kernelbench")
    assert "other-input" in said.nulls
    assert Label.DEGENERATE in said.labels
    assert "because of aten::addmm" in said.null_cause or "because of aten::relu" in said.null_cause


@pytest.mark.parametrize("name", FINE)
def test_a_program_that_only_looks_so_is_not(name, analyse):
    report = analyse(written(*FINE[name]))
    assert (report.nulls, report.null_cause) == ((), "")
    assert Label.DEGENERATE not in report.labels


def test_the_cause_is_the_first_of_the_last_that_all_show_it():
    rows = [{"op": name, "rms": 1.0, "change": change} for name, change in (("a", 1e-9), ("b", 1.0), ("c", 1e-5), ("d", 1e-6))]
    assert cause("other-input", rows) == "c"
    assert cause("other-input", rows[:2]) == ""
    assert cause("other-input", []) == ""
