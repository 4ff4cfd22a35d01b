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
