"""Known ways to be called right without being right. None may pass; where the evidence is clear the cheat is named."""

from __future__ import annotations

import pytest

from gpu_runner.contracts import Limits
from tests.gpu_runner.programs import CHEATS, REFERENCE


@pytest.mark.parametrize("name", CHEATS)
def test_a_cheat_is_never_verified(name, check):
    program, verdict, hack = CHEATS[name]
    report = check(REFERENCE, program)
    assert str(report.verdict) in verdict.split(" or "), (report.sentence, report.log)
    if hack is not None:
        assert report.hack == hack, report.sentence
    assert report.sentence


def test_a_program_that_never_ends_is_timed_out(check):
    program = CHEATS["zeros"][0].replace("return torch.zeros_like(x)", "\n        while True: pass")
    report = check(REFERENCE, program, limits=Limits(wall_s=15))
    assert report.verdict == "timed-out"
    assert "finish" in report.sentence
