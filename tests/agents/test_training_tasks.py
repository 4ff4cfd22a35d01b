"""Composed references: the same every time, of operators that fit together, and each bad one rejected under its cause."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

from agents.training.__main__ import main
from agents.training.service.process import local_hands
from agents.training.tasks import command
from agents.training.tasks.compose import MOST, propose
from agents.training.tasks.filters import Likeness, held_out, measured
from agents.training.tasks.operators import OPERATORS
from gpu_runner.contracts import Analysis, ArmTiming, Label, Refusal, Report, Task, TimingReport
from gpu_runner.hands import HandsError


def test_a_number_and_a_seed_give_the_same_program_every_time() -> None:
    texts = [propose(1, number).text for number in range(400)]
    assert texts == [propose(1, number).text for number in range(400)]
    assert len(set(texts)) > 390
    assert propose(2, 0).text != propose(1, 0).text
    lengths = {len(propose(1, number).operators) for number in range(400)}
    assert lengths == set(range(1, MOST + 1))
    used = {name for number in range(2000) for name in propose(1, number).operators}
    assert len(used) >= len(set(OPERATORS)) - 4


def test_every_program_has_what_a_reference_needs_and_no_member_that_is_not_used() -> None:
    for number in range(300):
        proposal = propose(3, number)
        tree = ast.parse(proposal.text)
        names = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef | ast.FunctionDef)}
        assert {"Model", "forward", "get_inputs", "get_init_inputs"} <= names
        members = [node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr.startswith("m")
                   and isinstance(node.value, ast.Name) and node.value.id == "self"]  # fmt: skip
        assert all(members.count(name) == 2 for name in members), proposal.text
        assert ("F." in proposal.text) == ("functional" in proposal.text)


def arm(name: str, ms: float) -> ArmTiming:
    return ArmTiming(arm=name, median_ms=ms, low_ms=ms, high_ms=ms, p10_ms=ms, p90_ms=ms, samples=9)


class Hands:
    """Hands that find what they are told."""

    def __init__(self, analysis: Analysis | None = None, arms: tuple[ArmTiming, ...] = (), errors: Any = None) -> None:
        self.analysis = analysis or Analysis(eager_ms=5.0)
        self.timing = TimingReport(arms=arms or (arm("eager", 5.0), arm("default", 3.0)), errors=errors or {})
        self.kinds: list[str] = []
        self.broken = False

    def perform(self, task: Task, progress: object = None, cancelled: object = None) -> Report:
        if self.broken:
            raise HandsError("There is no sandbox here.")
        self.kinds.append(task.kind)
        return self.analysis if task.kind == "analyse" else self.timing


@pytest.mark.parametrize(
    ("hands", "cause"),
    [
        (Hands(), ""),
        (Hands(Analysis(refusal=Refusal(code="crash_forward", sentence="It crashes."))), "refused: crash_forward"),
        (Hands(Analysis(deterministic=False)), "not deterministic"),
        (Hands(Analysis(labels=(Label.STOCHASTIC,))), "not deterministic"),
        (Hands(Analysis(inputs_constant=True)), "constant inputs"),
        (Hands(Analysis(nulls=("zeros",))), "constant output"),
        (Hands(Analysis(nulls=("first-input",))), "degenerate"),
        (Hands(Analysis(eager_ms=0.1)), "too fast"),
        (Hands(Analysis(eager_ms=1000.0)), "too slow"),
        (Hands(arms=(arm("eager", 0.9), arm("default", 0.5))), "too fast"),
        (Hands(arms=(arm("eager", 101.0), arm("default", 90.0))), "too slow"),
        (Hands(arms=(arm("eager", 5.0),), errors={"default": "Dynamo failed."}), "does not run under torch.compile"),
        (Hands(arms=(arm("default", 5.0),)), "does not run in eager"),
    ],
)
def test_each_cause_has_its_word(hands: Hands, cause: str) -> None:
    found = measured(hands, propose(1, 0).text, "cpu", 1.0, 100.0)
    assert (found.cause, bool(found.detail)) == (cause, bool(cause))
    if cause == "":
        assert (found.eager_ms, found.compile_ms) == (5.0, 3.0)


def test_what_is_near_to_a_held_out_program_or_to_another_task_is_told_from_what_is_not(tmp_path: Path) -> None:
    one, two = propose(1, 3).text, propose(1, 8).text
    (tmp_path / "one.py").write_text(one)
    (tmp_path / "rows.jsonl").write_text(json.dumps({"reference_code": two}) + "\n{}\n")
    near = Likeness()
    for name, text in held_out([tmp_path]).items():
        near.add(name, text)
    assert len(near.grams) == 2
    renamed, resized = re.sub(r"\bx\b", "tensor", one), re.sub(r"randn\(\d+", "randn(7", one)
    assert one not in (renamed, resized)
    for text in (one, renamed, resized, two + "\n\n# a comment\n"):
        assert near.near(text).cause == "near a held-out program"
    third = propose(1, 12).text
    assert near.near(third).cause == ""
    near.add("s1-00012", third, own=True)
    assert near.near(third).cause == "near another task"
    assert "s1-00012" in near.near(third).detail


def made(tmp_path: Path, hands: Hands, *more: str) -> tuple[int, dict[str, Any]]:
    import argparse

    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    out = tmp_path / "out"
    status = command.run(parser.parse_args(["--out", str(out), *more]), lambda: hands)
    return status, json.loads((out / "report.json").read_text())


def test_tasks_are_rows_to_train_on_with_a_report_of_all_that_was_rejected(tmp_path: Path) -> None:
    status, report = made(tmp_path, Hands(), "--count", "6", "--seed", "5")
    rows = [json.loads(line) for line in (tmp_path / "out" / "grpo_skill1.jsonl").read_text().splitlines()]
    assert (status, len(rows), report["kept"]) == (0, 6, 6)
    assert report["proposed"] == 6 + sum(report["rejected"].values())
    assert report["held_out"] > 100  # our examples and the benchmark's programs
    for row in rows:
        assert row["reference_code"] == (tmp_path / "out" / "programs" / f"{row['task_id'].split('/')[1]}.py").read_text()
        assert row["prompt"][1]["role"] == "user"
        assert (row["skill"], row["gpu_target"], row["baseline_us"]) == ("skill1", "cpu", 5000.0)


def test_a_machine_that_fails_stops_it_and_too_few_tasks_are_an_exit_status(tmp_path: Path) -> None:
    broken = Hands()
    broken.broken = True
    status, report = made(tmp_path / "a", broken, "--count", "6")
    assert (status, report["rejected"]) == (4, {"the machine failed": command.MOST_BROKEN})
    (tmp_path / "b").mkdir()
    status, report = made(tmp_path / "b", Hands(Analysis(eager_ms=0.01)), "--count", "1")
    assert (status, report["kept"], report["proposed"]) == (3, 0, command.MOST_TRIES)


def test_a_folder_that_is_not_empty_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert main(["tasks", "--count", "1", "--out", str(tmp_path)]) == command.BAD_INPUT
    assert "is not empty" in capsys.readouterr().err


@pytest.mark.slow
def test_composed_programs_run_in_the_sandbox_in_eager_and_compiled() -> None:
    hands = local_hands()
    try:
        found = [measured(hands, propose(11, number).text, "cpu", 0.05, 1000.0) for number in range(6)]
    finally:
        hands.close()  # type: ignore[attr-defined]
    assert not [one for one in found if one.cause.startswith(("refused", "does not run", "not deterministic"))]
    assert sum(one.compile_ms is not None for one in found) >= 3
