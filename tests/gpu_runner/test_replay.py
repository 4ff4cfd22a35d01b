"""One draw of an earlier check made again: for a deterministic program the same numbers to the bit."""

from __future__ import annotations

import argparse
import json
from contextlib import nullcontext

import pytest

from gpu_runner import verify
from gpu_runner.contracts import CheckReport, Label, Replay
from tests.gpu_runner.programs import PLAIN, REFERENCE

# name: (a candidate's forward, rows that must be among the wrong ones, how the sentence of the replayed draw goes on).
WRONG = {
    "everywhere": ("F.gelu(self.norm(x)) * 1.01", "declared draw 1", "the program is wrong"),
    "with other weights only": (
        "F.gelu(F.layer_norm(x, self.norm.normalized_shape))", "declared draw 4, in the same memory, other weights",
        "the program is wrong",
    ),
    "where the memory is the same": (
        "self.__dict__.setdefault('seen', {}).setdefault(x.data_ptr(), F.gelu(self.norm(x))).clone()",
        "declared draw 2, in the same memory", "it returned the result of an earlier call",
    ),
    "on structured inputs only": ("F.gelu(self.norm(x)) if x.abs().max() < 30 else x * 0.5", "heavy-tailed", "wrong on heavy-"),
}  # fmt: skip


def numbers(report: CheckReport, name: str) -> object:
    assert report.evidence is not None
    return next(draw["numbers"]["leaves"] for draw in report.evidence["draws"] if draw["how"]["name"] == name)


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_draw_is_as_wrong_when_it_is_replayed(name, check):
    forward, row, sentence = WRONG[name]
    candidate = PLAIN.replace("F.gelu(self.norm(x))", forward)
    first = check(REFERENCE, candidate, protocol="strict")
    wrong = next(r for r in first.rows if r.name == row)
    assert wrong.passed is False, first.rows
    again = check(REFERENCE, candidate, protocol="strict", replay=wrong.replay)
    assert [r.name for r in again.rows if r.replay] == [row]
    assert numbers(again, row) == numbers(first, row)
    assert again.rows[0] == wrong
    assert again.verdict == first.verdict
    assert again.sentence.startswith(f'Only "{row}" was replayed (seed {wrong.seed}). ')
    assert sentence in again.sentence


def test_a_right_draw_is_called_right_and_no_more_is_claimed(check):
    first = check(REFERENCE, PLAIN)
    again = check(REFERENCE, PLAIN, replay=first.rows[1].replay)
    assert again.verdict == "verified"
    assert again.sentence.startswith('Only "declared draw 2, in the same memory" was replayed (seed ')
    assert "Right on it" in again.sentence
    assert again.rows[0] == first.rows[1]
    assert again.coverage is None
    assert Label.NO_OWN_KERNELS not in again.labels


def test_a_draw_that_the_inputs_cannot_give_is_refused(check):
    integers = REFERENCE.split("def get_inputs")[0] + "def get_inputs():\n    return [torch.randint(0, 9, (8, 256))]\n"
    integers = integers.replace("self.norm(x)", "self.norm(x.float())") + "def get_init_inputs():\n    return [256]\n"
    replay = Replay(name="sign-mixed", group="structured", seed=1, variant="sign-mixed")
    report = check(integers, integers.replace("class Model(", "class ModelNew("), replay=replay)
    assert report.verdict == "refused"
    assert "cannot be replayed" in report.sentence


@pytest.fixture
def run(hands, tmp_path, capsys):
    """run(option, …) -> (exit status, the line) of a candidate that is wrong on every draw."""
    (tmp_path / "reference.py").write_text(REFERENCE)
    (tmp_path / "candidate.py").write_text(PLAIN.replace("F.gelu(self.norm(x))", "F.gelu(self.norm(x)) * 1.01"))
    given = ["--reference", str(tmp_path / "reference.py"), "--candidate", str(tmp_path / "candidate.py"), "--target", "cpu"]

    def work(*options):
        parser = argparse.ArgumentParser()
        verify.add_arguments(parser)
        status = verify.run(parser.parse_args([*given, "--protocol", "quick", "--json", *options]), lambda: nullcontext(hands))
        return status, json.loads(capsys.readouterr().out.splitlines()[-1])

    return work


def test_the_command_line_replays_a_row_by_its_name_or_as_json(run, tmp_path):
    status, line = run("--evidence", str(tmp_path / "e"))
    assert (status, line["verdict"]) == (1, "incorrect")
    recorded = json.loads((tmp_path / "e" / "check.json").read_text())["draws"][2]["how"]
    name = recorded["name"]
    by_name = run("--replay", name, "--from", str(tmp_path / "e"), "--evidence", str(tmp_path / "again"))
    as_json = run("--replay", json.dumps(recorded))
    for status, line in (by_name, as_json):
        assert (status, line["verdict"]) == (1, "incorrect")
        assert line["error"].startswith(f'Only "{name}" was replayed (seed {recorded["seed"]}).')
    assert len(json.loads((tmp_path / "again" / "check.json").read_text())["draws"]) == 1
    assert verify.judge(argparse.Namespace(folder=tmp_path / "again", json=False)) == 1
    status, line = run("--replay", "declared draw 9", "--from", str(tmp_path / "e"))
    assert (status, line["verdict"]) == (2, "refused")
    assert name in line["error"]
    assert run("--replay", name)[0] == 2
