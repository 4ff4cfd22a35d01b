"""Each config loads with `datasets` and trains one step in the trainer that it is for; verl's columns are what its reader
reads.

A tiny random model on a CPU, no network.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction

from stitchweb.datasets.configs import CONFIGS, Data
from stitchweb.datasets.demo import seed_labels
from stitchweb.datasets.services.collect import collect
from stitchweb.datasets.services.placing import place
from stitchweb.datasets.snapshot import freeze
from stitchweb.datasets.writing import FORMATS, write_config
from tests.conftest import build_world

pytestmark = pytest.mark.django_db  # for the fixture that fills it once
TEMPLATE = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
ROWS = 4
SHORT = 60  # characters of each text: what is tested is the columns


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in (
        ("HF_HUB_OFFLINE", "1"), ("HF_HOME", str(tmp_path / "hf")), ("HF_DATASETS_CACHE", str(tmp_path / "hf" / "datasets")),
        ("CUDA_VISIBLE_DEVICES", ""), ("TOKENIZERS_PARALLELISM", "false"), ("WANDB_DISABLED", "true"),
    ):  # fmt: skip
        monkeypatch.setenv(name, value)


def load(folder: Path, config: str, form: str, tmp_path: Path) -> Any:
    """The train split. `datasets` refuses to load a split without rows, so empty files are not named to it, as in the card."""
    import datasets

    kind = "json" if form == "jsonl" else "parquet"
    file = str(folder / form / config / f"train.{form}")
    return datasets.load_dataset(kind, data_files={"train": file}, cache_dir=str(tmp_path / "cache" / form / config))["train"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, django_db_setup: None, django_db_blocker: Any) -> Path:
    """All configs in both formats, made once."""
    out = tmp_path_factory.mktemp("out")
    with django_db_blocker.unblock(), transaction.atomic():
        team = build_world().team
        seed_labels(team, 48, 8)
        collect(team)
        data = Data(freeze(team, place(team)))
        transaction.set_rollback(True)
    for config in CONFIGS:
        for form in FORMATS:
            write_config(data, config, form, out / form / config)
    return out


@pytest.fixture
def parts(tmp_path: Path) -> tuple[Any, Any]:
    """A tokenizer of bytes and a model of a few thousand weights."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    words = ["<pad>", "</s>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    inner = Tokenizer(models.BPE(vocab={word: at for at, word in enumerate(words)}, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<pad>", eos_token="</s>", chat_template=TEMPLATE)
    small = LlamaConfig(
        vocab_size=len(words), hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        max_position_embeddings=4096, pad_token_id=0, eos_token_id=1, bos_token_id=1,
    )  # fmt: skip
    return tokenizer, kept(LlamaForCausalLM(small), tmp_path)


def kept(model: Any, tmp_path: Path) -> Any:
    """The model as it is read from a folder: trainers make a second one from there."""
    place = str(tmp_path / type(model).__name__)
    model.save_pretrained(place)
    return type(model).from_pretrained(place)


def shortened(value: Any) -> Any:
    if isinstance(value, str):
        return value[:SHORT]
    if isinstance(value, list):
        return [shortened(one) for one in value]
    return {key: shortened(one) for key, one in value.items()} if isinstance(value, dict) else value


def few(rows: Any) -> Any:
    return rows.select(range(min(ROWS, len(rows)))).map(lambda row: {k: shortened(row[k]) for k in row if k != "meta"})


def arguments(kind: Any, tmp_path: Path, **more: Any) -> Any:
    return kind(
        output_dir=str(tmp_path / "run"), max_steps=1, per_device_train_batch_size=2, report_to=[], use_cpu=True,
        save_strategy="no", logging_strategy="no", disable_tqdm=True, gradient_checkpointing=False, bf16=False, **more,
    )  # fmt: skip


def test_every_config_loads_in_both_formats(folder: Path, tmp_path: Path) -> None:
    for config in CONFIGS:
        columns, lines = (load(folder, config, form, tmp_path) for form in ("parquet", "jsonl"))
        assert len(columns) == len(lines) > 0, config
        assert set(columns.column_names) == set(lines.column_names), config
        assert columns["row_id"][:] == lines["row_id"][:]


@pytest.mark.parametrize("config", ["judge_sft", "judge_sft_pc", "judge_pairwise"])
def test_supervised_fine_tuning(config: str, folder: Path, parts: tuple[Any, Any], tmp_path: Path) -> None:
    from trl import SFTConfig, SFTTrainer

    rows = few(load(folder, config, "parquet", tmp_path))
    trainer = SFTTrainer(
        model=parts[1], processing_class=parts[0], train_dataset=rows, args=arguments(SFTConfig, tmp_path, max_length=1024)
    )
    assert trainer.train().global_step == 1


@pytest.mark.parametrize("config", ["judge_pref", "program_pref"])
def test_direct_preference_optimisation(config: str, folder: Path, parts: tuple[Any, Any], tmp_path: Path) -> None:
    from trl import DPOConfig, DPOTrainer

    rows = few(load(folder, config, "parquet", tmp_path))
    trainer = DPOTrainer(
        model=parts[1], processing_class=parts[0], train_dataset=rows, args=arguments(DPOConfig, tmp_path, max_length=1024)
    )
    assert trainer.train().global_step == 1


@pytest.mark.parametrize("config", ["program_pref", "program_pref_flat"])
def test_a_reward_model(config: str, folder: Path, parts: tuple[Any, Any], tmp_path: Path) -> None:
    from transformers import LlamaForSequenceClassification
    from trl import RewardConfig, RewardTrainer

    rows = few(load(folder, config, "parquet", tmp_path))
    small = parts[1].config
    small.num_labels = 1
    trainer = RewardTrainer(
        model=kept(LlamaForSequenceClassification(small), tmp_path), processing_class=parts[0], train_dataset=rows,
        args=arguments(RewardConfig, tmp_path, max_length=1024),
    )  # fmt: skip
    assert trainer.train().global_step == 1


def test_clean_or_a_hack(folder: Path, parts: tuple[Any, Any], tmp_path: Path) -> None:
    try:
        from trl import KTOConfig, KTOTrainer
    except ImportError:
        from trl.experimental.kto import KTOConfig, KTOTrainer

    rows = few(load(folder, "hack_unpaired", "parquet", tmp_path))
    trainer = KTOTrainer(
        model=parts[1], processing_class=parts[0], train_dataset=rows, args=arguments(KTOConfig, tmp_path, max_length=1024)
    )
    assert trainer.train().global_step == 1


@pytest.mark.parametrize("config", ["judge_grpo", "grpo_skill1", "grpo_skill2"])
def test_group_relative_policy_optimisation_hands_every_column_to_the_reward(
    config: str, folder: Path, parts: tuple[Any, Any], tmp_path: Path
) -> None:
    from trl import GRPOConfig, GRPOTrainer

    seen: dict[str, Any] = {}

    def reward(completions: list[Any], **columns: Any) -> list[float]:
        seen.update(columns)
        return [float(at) for at, _ in enumerate(completions)]

    rows = few(load(folder, config, "parquet", tmp_path))
    options = arguments(GRPOConfig, tmp_path, num_generations=2, max_completion_length=4)
    trainer = GRPOTrainer(model=parts[1], processing_class=parts[0], reward_funcs=reward, train_dataset=rows, args=options)
    assert trainer.train().global_step == 1
    wanted = {"judge_grpo": {"expert_scores_json", "expert_hack", "rubric_version"}}
    skills = {"task_id", "reference_code", "harness_id", "gpu_target", "baseline_us", "rubric_ref"}
    assert wanted.get(config, skills) <= seen.keys()


def test_four_heads_on_points(folder: Path, parts: tuple[Any, Any], tmp_path: Path) -> None:
    import torch
    from transformers import LlamaForSequenceClassification

    rows = few(load(folder, "pointwise", "parquet", tmp_path))
    small = parts[1].config
    small.num_labels, small.problem_type = 4, "regression"
    model = LlamaForSequenceClassification(small)
    batch = parts[0](rows["text"][:], return_tensors="pt", padding=True, truncation=True, max_length=1024)
    mask = torch.tensor(rows["label_mask"][:])
    loss = (((model(**batch).logits - torch.tensor(rows["labels"][:])) * mask) ** 2).mean()
    loss.backward()
    assert torch.isfinite(loss)


@pytest.mark.parametrize("config", ["verl_skill1", "verl_skill2"])
def test_verls_reader_finds_what_it_reads(config: str, folder: Path, parts: tuple[Any, Any], tmp_path: Path) -> None:
    """As verl/utils/dataset/rl_dataset.py reads a row of Parquet and its reward managers a ground truth."""
    rows = load(folder, config, "parquet", tmp_path)
    for at, row in enumerate(rows):
        assert {"data_source", "prompt", "ability", "reward_model", "extra_info"} <= row.keys()
        assert row["data_source"] == f"stitchweb/{config.removeprefix('verl_')}"
        text = parts[0].apply_chat_template(row["prompt"], add_generation_prompt=True, tokenize=False)
        assert text.endswith("<|assistant|>")
        assert not {"<image>", "<video>"} & set(text.split())
        assert row.get("extra_info", {}).get("index", -1) == at
        assert row["extra_info"]["split"] == "train"
        truth = json.loads(row["reward_model"]["ground_truth"])
        assert {"reference", "harness", "target", "baseline_us", "rubric"} == truth.keys()
        assert "class Model" in truth["reference"]
        if config == "verl_skill2":
            assert row["extra_info"]["feedback"]
            assert json.loads(row["extra_info"]["parent_code"])


def test_verls_reward_model_reads_plain_strings(folder: Path, tmp_path: Path) -> None:
    """As verl/utils/dataset/rm_dataset.py."""
    rows = load(folder, "program_pref_flat", "parquet", tmp_path)
    assert all(isinstance(rows[0][key], str) and rows[0][key] for key in ("prompt", "chosen", "rejected"))
