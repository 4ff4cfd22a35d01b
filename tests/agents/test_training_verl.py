"""The configuration for verl names only what verl's schema has, and the reward function asks the live service."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from agents.training import toy
from agents.training.__main__ import main
from agents.training.service.contracts import Priced, Terms
from agents.training.service.measure import Measurer
from agents.training.service.price import Pricer
from agents.training.service.server import serving
from agents.training.verl import keys, reward
from agents.training.verl.reward import RewardMissing, compute_score, priced, told
from gpu_runner.contracts import Analysis, CheckReport, Interval, Report, Task, TimingReport, Verdict
from gpu_runner.hands import HandsError

CONFIG: dict[str, Any] = yaml.safe_load(keys.CONFIG.read_text())
KNOWN: dict[str, Any] = json.loads(keys.KEYS.read_text())


def test_every_key_is_one_of_verls_and_every_value_of_its_kind() -> None:
    assert KNOWN["verl"] == "0.9.1"
    assert keys.problems(CONFIG, KNOWN["keys"]) == []


@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        ("trainer.critic_warmup", "ten", "trainer.critic_warmup is 'ten', and verl's is int."),
        ("trainer.critic_warm_up", 10, "verl has no key trainer.critic_warm_up."),
        ("actor_rollout_ref.rollout.multi_turn.max_assistant_turns", 2.5, "is 2.5"),
        ("algorithm.gamma", True, "is True, and verl's is float"),
        ("critic.optim", None, "verl has no key critic.optim."),
        ("data.train_batch_size", None, "is None, and verl's is int"),
    ],
)
def test_a_wrong_key_and_a_value_of_another_kind_are_told(path: str, value: object, why: str) -> None:
    changed: dict[str, Any] = json.loads(json.dumps(CONFIG))
    inner: Any = changed
    *above, last = path.split(".")
    for part in above:
        inner = inner[part]
    inner[last] = value
    (found,) = keys.problems(changed, KNOWN["keys"])
    assert why in found


def test_the_settings_are_the_published_ones() -> None:
    flat = dict(keys.flat(CONFIG))
    wanted = {
        "algorithm.adv_estimator": "gae", "algorithm.gamma": 1.0, "algorithm.lam": 0.95, "data.train_batch_size": 1024,
        "actor_rollout_ref.actor.optim.lr": 3e-6, "critic.optim.lr": 6e-6, "actor_rollout_ref.actor.clip_ratio_low": 0.2,
        "actor_rollout_ref.actor.clip_ratio_high": 0.28, "trainer.total_training_steps": 150,
        "actor_rollout_ref.rollout.multi_turn.max_assistant_turns": 200,
    }  # fmt: skip
    assert {key: flat[key] for key in wanted} == wanted
    assert flat["trainer.critic_warmup"] > 0
    assert flat["data.max_prompt_length"] + flat["data.max_response_length"] == 131072
    assert "Not run" in keys.CONFIG.read_text()
    root = keys.HERE.parents[2]
    for name in ("reward.custom_reward_function.path", "actor_rollout_ref.rollout.multi_turn.tool_config_path"):
        assert (root / flat[name]).is_file()
    assert callable(getattr(reward, flat["reward.custom_reward_function.name"]))


class Hands:
    """Hands that find everything right and twice as fast, the first `broken` tasks not at all."""

    def __init__(self, broken: int = 0) -> None:
        self.broken = broken

    def perform(self, task: Task, progress: object = None, cancelled: object = None) -> Report:
        if self.broken > 0:
            self.broken -= 1
            raise HandsError("There is no sandbox here.")
        if task.kind == "analyse":
            return Analysis()
        if task.kind == "check":
            return CheckReport(verdict=Verdict.VERIFIED, sentence="Right on all draws.")
        return TimingReport(over_eager=Interval(value=2.0, low=1.9, high=2.1))


def row() -> dict[str, Any]:
    truth = {"reference": toy.REFERENCE, "harness": "strict/4", "target": "cpu", "baseline_us": None, "rubric": ""}
    info = {"parent_code": json.dumps(toy.PARENT), "feedback": "\n".join(toy.POINTS)}
    return {"prompt": [], "reward_model": {"ground_truth": json.dumps(truth)}, "extra_info": info}


def test_a_solution_of_a_row_is_priced_and_what_has_no_reward_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reward, "WAIT_S", 0.0)
    terms, door = Terms(preset="milestone"), tmp_path / "door.json"
    with serving(Pricer(terms, Measurer(terms, Hands))) as opened:
        opened.write(door)
        one, text = row(), toy.HEAD + toy.EXPRESSIONS[0]
        truth, info = one["reward_model"]["ground_truth"], one["extra_info"]
        got = compute_score("stitchweb/skill2", text, truth, info, door=str(door))
        assert got == {"score": 2.0, "verified": 1.0, "speedup": 2.0}
        assert compute_score("stitchweb/skill2", "words", truth, info, door=str(door))["score"] == -1.0
    item = reward.item_of(text, truth, info)
    assert (item.skill, item.parent, item.points) == ("feedback", toy.PARENT, toy.POINTS)
    for broken, missing in ((2, False), (3, True)):
        hands = Hands(broken)
        with serving(Pricer(terms, Measurer(terms, lambda hands=hands: hands))) as opened:
            opened.write(door)
            if missing:
                with pytest.raises(RewardMissing, match=r"after 3 tries: There is no sandbox here\."):
                    priced(item, str(door), wait_s=0)
            else:
                assert priced(item, str(door), wait_s=0).reward == 2.0
    assert told(Priced(reward=-1.0, outcome="incorrect", sentence="Draw 1 is off.")) == "incorrect: Draw 1 is off."


def test_each_row_brings_the_tool_what_its_trajectory_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "train.jsonl").write_text(json.dumps(row()) + "\n")
    assert main(["verl-rows", str(tmp_path / "train.jsonl"), str(tmp_path / "made" / "train.jsonl")]) == 0
    assert main(["verl-rows", str(tmp_path / "nothing.jsonl"), str(tmp_path / "a")]) == 2
    assert "cannot be taken: FileNotFoundError" in capsys.readouterr().err
    (made,) = [json.loads(line) for line in (tmp_path / "made" / "train.jsonl").read_text().splitlines()]
    truth = json.loads(made["extra_info"]["tools_kwargs"]["verify"]["create_kwargs"]["truth"])
    assert (truth["ground_truth"], truth["feedback"]) == (row()["reward_model"]["ground_truth"], "\n".join(toy.POINTS))
    assert made["agent_name"] == CONFIG["actor_rollout_ref"]["rollout"]["agent"]["default_agent_loop"]
    (tool,) = yaml.safe_load((keys.HERE / "tools.yaml").read_text())["tools"]
    assert tool["tool_schema"]["function"]["name"] in made["extra_info"]["tools_kwargs"]
    module, _, name = tool["class_name"].rpartition(".")
    assert f"class {name}(BaseTool)" in (keys.HERE.parents[2] / f"{module.replace('.', '/')}.py").read_text()
