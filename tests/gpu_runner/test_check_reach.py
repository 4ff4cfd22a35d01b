"""Ties of selections, other batch sizes, a second process, arithmetic of tiny numbers, presets."""

from __future__ import annotations

import pytest

from gpu_runner.contracts import PROTOCOLS, CandidateFiles, CheckReport, HackClass, Mode, Source, TimeTask

MODEL = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return {result}
def get_inputs():
    return [{x}]
"""


def both(result: str, other: str, x: str = "torch.randn(48, 16)") -> tuple[str, str]:
    """A reference, and a candidate that gives something else instead."""
    return MODEL.format(result=result, x=x), MODEL.format(result=other, x=x).replace("class Model(", "class ModelNew(")


def row(report: CheckReport, name: str):
    return next(r for r in report.rows if r.name == name)


LAST = "x.shape[-1] - 1 - x.flip(-1).{}"
TIES = "torch.randint(0, 4, (48, 16)).float()"


@pytest.mark.parametrize(
    ("result", "other"),
    [
        ("x.argmax(-1)", LAST.format("argmax(-1)")),
        ("x.argmin(1, keepdim=True)", LAST.format("argmin(-1)") + "[:, None]"),
        ("x.max(-1)", f"(x.amax(-1), {LAST.format('argmax(-1)')})"),
        ("x.argmax()", "x.numel() - 1 - x.reshape(-1).flip(0).argmax()"),
        ("x.topk(3)[1]", LAST.format("sort(dim=-1, descending=True, stable=True)[1]") + "[:, :3]"),
        ("x.argsort(0)", "x.shape[0] - 1 - x.flip(0).sort(dim=0, stable=True)[1]"),
    ],
)
def test_a_tie_that_falls_differently_is_no_error(result, other, check):
    report = check(*both(result, other.replace("x.shape[-1] - 1 - x.flip(-1)", "15 - x.flip(-1)"), TIES))
    assert report.verdict == "verified", report.sentence
    assert "ties fell differently" in row(report, "declared draw 1").note


def test_nor_is_it_one_when_the_program_is_timed(hands):
    reference, candidate = both("x.argmax(-1)", "15 - x.flip(-1).argmax(-1)", TIES)
    files = CandidateFiles(files={"model_new.py": candidate})
    task = TimeTask(target="cpu", source=Source(text=reference), candidate=files, protocol=PROTOCOLS["quick"])
    report = hands.perform(task)
    assert report.verdict is None, report.sentence


@pytest.mark.parametrize(
    ("result", "other"),
    [
        ("x.argmax(-1)", "(x.argmax(-1) + 1) % 16"),  # another value
        ("x.topk(3)[1]", "x.argmax(-1, keepdim=True).expand(-1, 3).contiguous()"),  # one element three times
        ("x.argmax(-1)", "x.argmax(-1) + 16"),  # outside
        ("x.sort(dim=-1, stable=True)[1]", "15 - x.flip(-1).sort(dim=-1, stable=True)[1]"),  # ties have an order here
        ("(x.argmax(-1) * 2)", "2 * (15 - x.flip(-1).argmax(-1))"),  # no index any more
    ],
)
def test_what_is_no_tie_stays_an_error(result, other, check):
    report = check(*both(result, other, TIES))
    assert report.verdict == "incorrect", report.sentence
    assert "elements differ" in report.sentence


@pytest.mark.parametrize(
    ("other", "value", "note"),
    [
        ("x * 2", "yes: 1, 25, 46", ""),
        ("x * 2 if x.shape[0] % 2 == 0 else x * 3", "no: wrong at 1, wrong at 25", "right at 46"),
        ("x.view(48, 16) * 2", "no: refused at 1, refused at 25, refused at 46", "made for the declared shapes alone"),
    ],
)
def test_other_batch_sizes_are_told_and_decide_nothing(other, value, note, check):
    report = check(*both("x * 2", other), protocol="strict")
    assert report.verdict == "verified", report.sentence
    found = row(report, "other batch sizes")
    assert (found.value, found.passed) == (value, None)
    assert note in found.note
    assert (HackClass.SHAPE_OR_SEED_SPECIAL_CASE in report.suspects) == ("wrong" in value)


def test_a_reference_of_one_size_has_no_other(check):
    report = check(*both("x.view(48, 16) * 2", "x * 2"), protocol="strict")
    assert row(report, "other batch sizes").value == "not applicable"


def test_two_processes_of_a_program_must_agree(check):
    report = check(*both("x * 2", "x * 2"), protocol="strict")
    assert row(report, "same content, fresh process").value == "identical bits; eager twice: identical bits"
    chance = both("x * 2", "x * (2 if T > 0.5 else 2.01)")
    # Wrong in every second process: one that was right where it was checked is not right.
    program = chance[1].replace("import torch\n", "import os\nimport torch\nT = os.urandom(1)[0] / 255\n")
    verdicts = {check(chance[0], program, protocol="strict").sentence.partition(":")[0] for _ in range(8)}
    assert any("fresh process" in said or "is wrong" in said for said in verdicts)


def test_flushing_of_tiny_numbers_is_told(check):
    reference, candidate = both("x * 2", "x * 2")
    assert row(check(reference, candidate), "arithmetic of tiny numbers").passed is True
    report = check(reference, candidate + "torch.set_flush_denormal(True)\n")
    assert report.verdict == "verified", report.sentence
    found = row(report, "arithmetic of tiny numbers")
    assert (found.value, found.passed) == ("changed", None)
    assert "kept before it was loaded, both flushed to zero since" in found.note


def test_the_benchmarks_preset_is_its_published_rule(check):
    preset = PROTOCOLS["kernelbench"]
    assert preset.mode is Mode.AS_CONSTRUCTED
    # Nothing to `allclose`, whose absolute tolerance knows no scale; far more than `quick` allows beside such results.
    small = both("x * 1e-3", "x * 1e-3 + 5e-5")
    assert check(*small, protocol="quick").verdict == "incorrect"
    report = check(*small, protocol="kernelbench")
    assert report.verdict == "verified", report.sentence
    assert report.protocol == "kernelbench/4"
    seeds = [r.seed for r in report.rows if r.group == "declared"]
    assert tuple(seeds[:5]) == preset.seeds  # one more comes after all other calls, under a seed that nobody knows
    assert check(*both("x * 1e-3", "x * 1e-3 + 2e-4"), protocol="kernelbench").verdict == "incorrect"
    assert check(*small, protocol="quick").verdict == "incorrect"


def test_the_preset_keeps_the_module_in_train_mode_and_the_verdict_says_so(check):
    reference, candidate = both("x * (2 if self.training else 3)", "x * 2")
    report = check(reference, candidate, protocol="kernelbench", mode=PROTOCOLS["kernelbench"].mode)
    assert report.verdict == "verified", report.sentence
    assert "in the mode it was constructed in" in report.sentence
    assert check(reference, candidate, mode=Mode.EVAL).verdict == "incorrect"
