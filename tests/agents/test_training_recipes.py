"""Recipes are right as files and as what TRL takes; a run says what it lacks before it starts anything; rewards are what they
should be."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from agents.rubric import DIMENSIONS
from agents.training import command, toy
from agents.training.__main__ import main
from agents.training.agreement import HACK, NOT_IN_FORM, agreement
from agents.training.driver import Given, RunFailed, rows_for, run, sentence, trainer
from agents.training.learning.rewards import FEWEST, Counted, TooManyFailed, coder_reward, judge_reward
from agents.training.learning.sampling import looping
from agents.training.recipe import TINY, BadRecipe, Kind, Recipe, names, read
from agents.training.service.contracts import Item, Priced


@pytest.mark.parametrize("name", names())
def test_every_recipe_is_right_and_has_a_small_form(name: str) -> None:
    recipe = read(name)
    assert recipe.name == name
    assert recipe.sources
    assert recipe.run
    small = recipe.small()
    assert small.model.name == TINY
    assert [stage.name for stage in small.stages] == [stage.name for stage in recipe.stages]
    assert not any(stage.settings.get("use_vllm") or stage.settings.get("bf16") for stage in small.stages)
    assert Recipe.model_validate(small.model_dump()) == small


def test_the_settings_of_every_stage_are_ones_that_trl_has(tmp_path: Path) -> None:
    from trl import GRPOConfig, SFTConfig

    kinds: dict[Kind, Any] = {"sft": SFTConfig, "rejection": SFTConfig, "grpo": GRPOConfig}
    for name in names():
        for recipe in (read(name), read(name).small()):
            for stage in recipe.stages:
                known = {field.name for field in fields(kinds[stage.kind])}
                assert stage.settings.keys() <= known, (name, stage.name, stage.settings.keys() - known)
                made = kinds[stage.kind](**{"output_dir": str(tmp_path), "use_cpu": True, "report_to": [], **stage.settings})
                assert all(getattr(made, key) == value for key, value in stage.settings.items() if key != "report_to")


def test_the_published_settings_are_those_of_the_big_recipes() -> None:
    for name in ("coder-skill1-32b", "coder-skill2-32b"):
        recipe = read(name)
        assert recipe.model.lora is not None
        assert (recipe.model.lora.r, recipe.model.lora.alpha, recipe.model.lora.target) == (128, 128, "all-linear")
        assert [stage.kind for stage in recipe.stages] == ["grpo", "rejection", "grpo"]
        shaped = recipe.stages[-1]
        wanted = {
            "learning_rate": 1e-6, "beta": 0.03, "epsilon": 0.2, "epsilon_high": 0.28, "temperature": 0.9, "top_p": 0.95,
            "top_k": 20, "num_generations": 6, "num_train_epochs": 8, "save_steps": 20, "max_completion_length": 16384,
        }  # fmt: skip
        assert {key: shaped.settings[key] for key in wanted} == wanted
        generated = shaped.settings["per_device_train_batch_size"] * recipe.launch.processes
        assert generated * shaped.settings["steps_per_generation"] == 16 * 6  # prompts in a batch, each with its rollouts
        assert generated * shaped.settings["gradient_accumulation_steps"] == 8 * 6  # in a mini-batch
        assert shaped.longest_prompt == 8192
        assert recipe.run.startswith("Not run")


HEAD = 'name = "own"\ntitle = ""\nrole = "judge"\nrun = ""\n[model]\nname = "tiny"\ndtype = "float32"\n[[stages]]\nname = "a"\n'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("name = 1", "name"),
        ("not toml [", "not valid TOML"),
        (f'{HEAD}kind = "rejection"\ndata = "d"', "needs a reward"),
        (f'{HEAD}kind = "grpo"\ndata = "d"\nreward = {{ preset = "papre" }}', "no reward preset 'papre'"),
    ],
)
def test_a_recipe_that_is_not_right_is_refused_with_the_place(text: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(text)
    with pytest.raises(BadRecipe, match=why):
        read(str(tmp_path / "own.toml"))


def test_what_is_missing_is_said_before_anything_starts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--recipe", "coder"]) == command.BAD_INPUT
    assert "There is no recipe 'coder'. There are coder-skill1-32b" in capsys.readouterr().err
    assert main(["run", "--recipe", "judge-32b", "--out", str(tmp_path / "a")]) == command.BROKEN
    assert "needs rows: --data DIR" in capsys.readouterr().err
    assert main(["run", "--recipe", "judge-32b", "--data", str(tmp_path), "--out", str(tmp_path / "a")]) == command.BROKEN
    assert "export the config judge_sft_pc" in capsys.readouterr().err
    for config in ("grpo_skill1", "judge_sft_pc", "judge_grpo"):
        (tmp_path / f"{config}.jsonl").write_text('{"prompt": []}\n')
    assert (
        main(["run", "--recipe", "coder-skill1-32b", "--data", str(tmp_path), "--out", str(tmp_path / "a")]) == command.BROKEN
    )
    assert "needs a judge: --judge FILE" in capsys.readouterr().err
    assert main(["run", "--recipe", "judge-32b", "--data", str(tmp_path), "--out", str(tmp_path / "a")]) == command.BROKEN
    assert "trains on 6 GPUs and this machine shows" in capsys.readouterr().err
    assert not (tmp_path / "a").exists()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    assert main(["run", "--recipe", "coder-toy", "--out", str(tmp_path / "full")]) == command.BROKEN
    assert "is not empty" in capsys.readouterr().err
    (tmp_path / "grpo_skill1.jsonl").write_text("")
    with pytest.raises(RunFailed, match="no row"):
        rows_for(Given(read("coder-toy"), tmp_path / "b", tmp_path), "grpo_skill1")


def test_without_trl_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found = command.find_spec
    monkeypatch.setattr(command, "find_spec", lambda name: None if name == "trl" else found(name))
    assert main(["run", "--recipe", "coder-toy"]) == command.BAD_INPUT
    assert capsys.readouterr().err.startswith("Training needs trl, which this environment has not: `make setup-train`")


def test_a_trainer_that_lacks_trl_says_so_itself(tmp_path: Path) -> None:
    (tmp_path / "trl").mkdir()
    (tmp_path / "trl" / "__init__.py").write_text("raise ModuleNotFoundError('no trl', name='trl')")
    job = {"role": "coder", "stage": read("coder-toy").stages[0].model_dump(mode="json"), "model": {"name": TINY}, "rows": "r",
           "out": str(tmp_path)}  # fmt: skip
    (tmp_path / "job.json").write_text(json.dumps(job))
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); sys.argv = ['x', {str(tmp_path / 'job.json')!r}]\n" + (
        "import runpy; runpy.run_module('agents.training.learning', run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == command.BAD_INPUT
    assert "trl is not here: `make setup-train`" in json.loads(done.stdout)["sentence"]


def test_several_gpus_are_one_process_each_on_the_devices_that_train() -> None:
    words = trainer(Given(read("coder-skill1-32b"), Path("o")), Path("job.json"), 4)
    assert words[:2] == ["env", "CUDA_VISIBLE_DEVICES=0,1,2,3"]
    assert words[words.index("--num_processes") + 1] == "4"
    assert words[-3:] == ["-m", "agents.training.learning", "job.json"]
    assert "accelerate.commands.launch" not in trainer(Given(read("coder-toy"), Path("o")), Path("job.json"))


def test_a_run_in_which_too_many_get_no_reward_stops_with_the_last_cause() -> None:
    counted = Counted(0.2)
    assert counted.take([Priced(reward=1.0, outcome="verified"), Priced(error="The sandbox is gone.")]) == [1.0, None]
    assert counted.taken() == {"error": 1, "verified": 1}
    assert counted.taken() == {}
    with pytest.raises(TooManyFailed, match=rf"9 of the last {FEWEST} .* no fault of theirs.* 20%.* The sandbox is gone\."):
        counted.take([Priced(error="The sandbox is gone.")] * 8 + [Priced(reward=0.0, outcome="incorrect")] * 6)


def test_a_completion_goes_to_the_service_with_its_row() -> None:
    asked: list[Item] = []

    class Client:
        def price(self, items: list[Item]) -> list[Priced]:
            asked.extend(items)
            return [Priced(reward=2.0, outcome="verified"), Priced(error="broken")]

    (row,) = toy.coder_rows("skill2")
    columns = {name: [row[name]] * 2 for name in row if name != "prompt"}
    reward = coder_reward(Client(), Counted(1.0))  # type: ignore[arg-type]
    assert reward([[{"role": "assistant", "content": "one"}], "two"], **columns) == [2.0, None]
    assert [one.answer for one in asked] == ["one", "two"]
    assert {(one.skill, one.target) for one in asked} == {("feedback", "cpu")}
    assert (asked[0].parent, asked[0].points, asked[0].reference) == (toy.PARENT, toy.POINTS, toy.REFERENCE)


def test_agreement_is_best_for_the_experts_own_answer_and_worst_out_of_form() -> None:
    (row, *_) = toy.judge_rows(8)
    levels, hack = json.loads(row["expert_scores_json"]), row["expert_hack"]
    right = row["completion"][0]["content"]
    assert agreement(right, levels, hack) == 1 + HACK
    other = "major" if hack == "none" else "none"
    assert agreement(right, levels, other) == 1 - HACK
    off = {key: level + 2 if level < 4 else level - 2 for key, level in levels.items()}
    assert agreement(right, off, hack) == pytest.approx(0.5 + HACK)
    assert agreement(right, {**off, **dict.fromkeys(DIMENSIONS[1:])}, hack) == pytest.approx(0.5 + HACK)
    assert agreement("Four fives.", levels, hack) == NOT_IN_FORM
    assert judge_reward([right, ""], expert_scores_json=[row["expert_scores_json"]] * 2, expert_hack=[hack] * 2) == [
        1 + HACK,
        -1,
    ]


def test_the_toys_pieces_make_its_answers() -> None:
    from agents.training.learning.models import pieces

    tokenizer = pieces(toy.JUDGE)
    for row in toy.judge_rows(8):
        ids = tokenizer.apply_chat_template([*row["prompt"], *row["completion"]], tokenize=True)["input_ids"]
        assert tokenizer.unk_token_id not in ids
        assert tokenizer.decode(ids, skip_special_tokens=True) == row["completion"][0]["content"]
        prompt = tokenizer.apply_chat_template(row["prompt"], tokenize=True, add_generation_prompt=True)["input_ids"]
        assert ids[: len(prompt)] == prompt
    coder = pieces(toy.CODER)
    assert coder.decode(coder(toy.CODER[0] + toy.CODER[2]).input_ids) == toy.CODER[0] + toy.CODER[2]
    with pytest.raises(ValueError, match="no rows of the config"):
        toy.rows_of("pointwise")


def test_answers_that_go_round_in_circles_are_told() -> None:
    assert looping("y = x + 1\nz = y\n" * 20)
    assert not looping("\n".join(f"y{n} = {n}" for n in range(40)))
    assert not looping("x = 1\n" * 5)


def test_a_step_reads_as_a_sentence() -> None:
    line = {"stage": "shaped", "step": 2, "of": 9, "reward": 0.5, "loss": None, "outcomes": {"incorrect": 3, "verified": 1}}
    assert sentence(line) == "shaped 2/9: reward 0.500 (3 incorrect, 1 verified)"


@pytest.mark.slow
def test_a_trainers_end_is_told_with_its_last_words(tmp_path: Path) -> None:
    broken = tmp_path / "own.toml"
    broken.write_text(f'{HEAD}kind = "sft"\ndata = "judge_sft_pc"\nsettings = {{ no_such_setting = 1 }}')
    told: list[str] = []
    with pytest.raises(RunFailed, match=r"The stage a does not work: TypeError: .*no_such_setting"):
        run(Given(read(str(broken)), tmp_path / "out", say=told.append))
    assert told == ["Stage 1 of 1: a (sft on 32 rows)"]
