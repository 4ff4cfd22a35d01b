"""Training with the reward service live: a tiny model's mean reward rises, every stage of every recipe runs, and an interrupted
run leaves nothing behind. Real verdicts throughout."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from agents.training.curve import NoCurve, conditions, gain, picture, read
from agents.training.driver import Given, RunFailed, run
from agents.training.recipe import read as recipe_of
from gpu_runner.neighbours import family


def lines(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "curve.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_the_mean_reward_of_the_toy_task_rises_by_more_than_its_spread(tmp_path: Path) -> None:
    made = run(Given(recipe_of("coder-toy"), tmp_path / "run", seed=1))
    assert (made / "config.json").is_file()
    head, rewards = read(tmp_path / "run" / "curve.jsonl")
    assert head["recipe"] == "coder-toy"
    found = gain(rewards)
    assert found["last"] - found["first"] > found["spread"], rewards
    service = lines(tmp_path / "run")[-1]
    assert service["kind"] == "service"
    assert service["outcomes"]["verified"] > 0
    assert service["outcomes"].get("error", 0) == 0
    assert 0 < service["measured"] < sum(service["outcomes"].values())  # identical programs once


@pytest.mark.slow
@pytest.mark.parametrize("name", ["coder-skill1-32b", "judge-32b"])
def test_every_stage_of_a_big_recipe_runs_with_a_tiny_model(name: str, tmp_path: Path) -> None:
    recipe = recipe_of(name).small()
    made = run(Given(recipe, tmp_path / "run"))
    assert (made / "config.json").is_file()
    told = lines(tmp_path / "run")
    for stage in recipe.stages:
        assert [line for line in told if line["kind"] == "step" and line["stage"] == stage.name]
    if recipe.role == "coder":
        kept = (tmp_path / "run" / "2-warm-up" / "kept.jsonl").read_text().splitlines()
        assert kept
        assert all(json.loads(row)["reward"] > 0 for row in kept)
        assert any(line["outcomes"].get("verified") for line in told if line["kind"] == "step" and line["stage"] == "shaped")


@pytest.mark.slow
def test_an_interrupted_run_ends_all_that_it_started_and_says_so(tmp_path: Path) -> None:
    child, below = _begun(tmp_path)
    assert len(below) > 3  # the service, its sandboxes, the trainer
    os.kill(child.pid, signal.SIGINT)
    assert child.stderr is not None
    said = child.stderr.read()
    assert child.wait(60) == 130
    assert "Interrupted; everything that was started has ended" in said
    _gone(below)


@pytest.mark.slow
def test_a_killed_run_takes_its_trainer_and_its_service_with_it(tmp_path: Path) -> None:
    child, below = _begun(tmp_path)
    child.kill()
    child.wait(10)
    _gone(below)


def _begun(folder: Path) -> tuple[subprocess.Popen[str], set[int]]:
    """A run whose first stage has made a step, and all processes below it."""
    words = [sys.executable, "-m", "agents.training", "run", "--recipe", "coder-toy", "--out", str(folder / "run")]
    child = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert child.stderr is not None
    for line in child.stderr:
        if "milestones 1/" in line:
            break
    return child, family(child.pid) - {child.pid}


def _gone(pids: set[int]) -> None:
    end = time.monotonic() + 20
    while time.monotonic() < end and any(Path(f"/proc/{pid}").exists() for pid in pids):
        time.sleep(0.2)
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


@pytest.mark.slow
def test_rows_without_a_reference_to_judge_by_stop_the_run_with_a_sentence(tmp_path: Path) -> None:
    rows = [{"prompt": [{"role": "user", "content": "x"}], "task_id": "a", "skill": "skill1", "gpu_target": "cpu",
             "reference_code": "class Model:\n    pass\n"}] * 4  # fmt: skip
    (tmp_path / "grpo_skill1.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    recipe = recipe_of("coder-toy")
    big = recipe.model_copy(update={"model": recipe.model.model_copy(update={"name": str(tmp_path / "model")})})
    _save_tiny(tmp_path / "model")
    with pytest.raises(RunFailed, match=r"No row has a reference that programs can be judged by.*The reference cannot be used"):
        run(Given(big, tmp_path / "run", tmp_path))


def _save_tiny(folder: Path) -> None:
    """In a process of its own, for this one must not keep torch."""
    code = (
        "import sys; from agents.training.learning.models import tiny; m, t = tiny('coder', 1)\n"
        "m.save_pretrained(sys.argv[1]); t.save_pretrained(sys.argv[1])"
    )
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True, capture_output=True)


def test_a_curve_is_drawn_from_what_was_recorded(tmp_path: Path) -> None:
    file = tmp_path / "curve.jsonl"
    head = {"kind": "run", "recipe": "coder-toy", "seed": 3, "versions": {"trl": "1.16.0"}, "date": "d", "device": "c",
            "python": "3", "command": "x"}  # fmt: skip
    steps = [{"kind": "step", "stage": "milestones", "step": n, "reward": -1 + n / 10} for n in range(1, 21)]
    other = [{"kind": "step", "stage": "shaped", "step": n, "reward": 9.0} for n in range(1, 4)]
    file.write_text("".join(json.dumps(line) + "\n" for line in [head, *steps, *other]))
    found, rewards = read(file)
    assert len(rewards) == 20
    assert read(file, "shaped")[1] == [9.0] * 3
    told = gain(rewards)
    assert told["first"] == pytest.approx(-0.45)
    assert told["last"] == pytest.approx(0.55)
    assert told["spread"] == pytest.approx(0.3028, abs=1e-3)
    assert gain([0.5] * 8)["spread"] == 0.01
    drawn = picture([(found, rewards), (found | {"seed": 4}, rewards[:10])], "a < b")
    assert drawn.count("<polyline") == 3
    assert "a &lt; b" in drawn
    assert "seeds 3; d; c; Python 3, trl 1.16.0" in conditions([(found, rewards)])
    file.write_text(json.dumps(head))
    with pytest.raises(NoCurve, match="two steps or more"):
        read(file)
