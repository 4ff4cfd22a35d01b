"""Programs that are merely wrong. Known ways to be called right without being right: tests/hacks."""

from __future__ import annotations

import pytest

from gpu_runner.contracts import Limits
from tests.gpu_runner.programs import MISTAKES, PLAIN, REFERENCE


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_rejected_with_a_sentence_and_called_no_cheat(name, check):
    program, verdict = MISTAKES[name]
    report = check(REFERENCE, program)
    assert (report.verdict, report.hack) == (verdict, None), (report.sentence, report.log)
    assert report.sentence


def test_a_program_that_never_ends_is_timed_out(check):
    program = PLAIN.replace("return F.gelu", "\n        while True: pass\n        return F.gelu")
    report = check(REFERENCE, program, limits=Limits(wall_s=15))
    assert report.verdict == "timed-out"
    assert "finish" in report.sentence


def test_a_library_that_never_ends_loading_is_timed_out(check):
    kernel = "static volatile bool on = true;\n__attribute__((constructor)) static void start() { while (on) {} }\n"
    program = "import ctypes\nfrom pathlib import Path\n" + PLAIN
    program += "ctypes.CDLL(str(Path(__file__).with_name('libkernels.so')))\n"
    report = check(REFERENCE, program, limits=Limits(wall_s=8), kernels={"kernels/a.cpp": kernel})
    assert (report.verdict, "finish" in report.sentence) == ("timed-out", True)


BY_CHANCE = """
import torch
{drawn}
class {name}(torch.nn.Module):
    def forward(self, x):
        return x * W

def get_inputs():
    return [torch.randn(64, 16)]
"""


@pytest.mark.parametrize(
    "drawn",
    [
        "W = torch.randn(16)",
        "W = torch.tensor([float(text) for text in {str(number) for number in range(16)}])",
    ],
    ids=["numbers without a seed", "the order of a set of texts"],
)
def test_a_program_that_is_right_only_where_two_processes_share_their_chance_is_not(drawn, check):
    """Processes are forked from ones that have torch, and must not have in common what that drew when it was imported."""
    report = check(BY_CHANCE.format(drawn=drawn, name="Model"), BY_CHANCE.format(drawn=drawn, name="ModelNew"))
    assert report.verdict == "incorrect", report.sentence
