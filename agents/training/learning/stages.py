"""The stages: fine-tuning, rejection sampling, group-relative policy optimisation. Each leaves a model in its folder."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agents.training.job import KEPT_ROWS, SAID, STEP, Job
from agents.training.learning.models import load, tokenizer_of
from agents.training.learning.rewards import Counted, TooManyFailed, coder_reward, item_of, judge_reward
from agents.training.learning.sampling import looping, sample, sampled_from
from agents.training.learning.telling import Teller
from agents.training.service.client import Client

log = logging.getLogger(__name__)
AT_ONCE = 64  # references that are looked at in one batch
PROBE = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    pass\n"  # a program that ends at once
Row = dict[str, Any]


class StageFailed(Exception):
    """The stage cannot go on. The message is a sentence."""


def carry_out(job: Job, teller: Teller) -> None:
    """Run the job's stage; its model lies in `job.made` then, or what was sampled in its folder. Raises StageFailed,
    NoService."""
    rows = read_rows(Path(job.rows))
    if not rows:
        raise StageFailed(f"The config {job.stage.data} has no rows to train on: {job.rows} is empty.")
    try:
        {"sft": _sft, "rejection": _rejection, "grpo": _grpo}[job.stage.kind](job, rows, teller)
    except TooManyFailed as error:
        raise StageFailed(str(error)) from None
    except (KeyError, TypeError, ValueError) as error:
        log.exception("the stage failed")
        raise StageFailed(f"The stage {job.stage.name} does not work: {type(error).__name__}: {error}") from error


def read_rows(path: Path) -> list[Row]:
    """The rows of a `.jsonl` file."""
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def short(job: Job, rows: Sequence[Row], tokenizer: Any, teller: Teller) -> list[Row]:
    """The rows whose prompt has no more tokens than the stage takes. Raises StageFailed where none is left."""
    most = job.stage.longest_prompt
    if most is None:
        return list(rows)
    kept = [
        row for row in rows
        if len(tokenizer(tokenizer.apply_chat_template(row["prompt"], tokenize=False, add_generation_prompt=True)).input_ids)
        <= most
    ]  # fmt: skip
    if not kept:
        raise StageFailed(f"Every prompt of {job.stage.data} has more than {most} tokens: raise longest_prompt of the stage.")
    if len(kept) < len(rows):
        teller.tell(SAID, sentence=f"{len(rows) - len(kept)} of {len(rows)} rows are left out: more than {most} tokens.")
    return kept


def usable(rows: Sequence[Row], client: Client, counted: Counted, teller: Teller) -> list[Row]:
    """The rows whose reference anything can be judged by. Raises StageFailed where none is left."""
    asked = list({(row["reference_code"], row.get("gpu_target")): row for row in rows}.values())
    why: dict[str, str] = {}
    for start in range(0, len(asked), AT_ONCE):
        some = asked[start : start + AT_ONCE]
        prices = client.price([item_of(PROBE, row | {"skill": "skill1"}) for row in some])
        counted.take([price for price in prices if not price.bad_reference])
        why |= {row["reference_code"]: price.error for row, price in zip(some, prices, strict=True) if price.bad_reference}
    counted.taken()
    kept = [row for row in rows if row["reference_code"] not in why]
    last = next(iter(why.values()), "")
    if not kept:
        raise StageFailed(f"No row has a reference that programs can be judged by. {last}")
    if why:
        teller.tell(
            SAID, sentence=f"{len(rows) - len(kept)} of {len(rows)} rows are left out. One of {len(why)} causes: {last}"
        )
    return kept


def _arguments(job: Job, **more: Any) -> dict[str, Any]:
    import torch

    on_cpu = job.cpu or not torch.cuda.is_available()
    own = {"output_dir": str(Path(job.out) / "checkpoints"), "seed": job.seed, "use_cpu": on_cpu, "report_to": []}
    return own | dict(job.stage.settings) | more


def _lora(job: Job) -> Any:
    if job.model.lora is None:
        return None
    from peft import LoraConfig  # type: ignore[import-not-found,unused-ignore]

    asked = job.model.lora
    return LoraConfig(
        r=asked.r, lora_alpha=asked.alpha, target_modules=asked.target, lora_dropout=asked.dropout, task_type="CAUSAL_LM"
    )


def _telling(job: Job, teller: Teller, counted: Counted | None = None) -> Any:
    """Tells each logged step."""
    from transformers import TrainerCallback

    class Telling(TrainerCallback):  # type: ignore[misc,unused-ignore]
        def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, float] | None = None, **more: Any) -> None:
            if not state.is_world_process_zero:
                teller.hush()
            logs = logs or {}
            if "train_runtime" in logs:
                return
            names = ("loss", "reward", "reward_std", "learning_rate", "kl", "entropy")
            told: dict[str, Any] = {name: float(logs[name]) for name in names if name in logs}
            if counted is not None:
                told["outcomes"] = counted.taken()
            teller.tell(STEP, stage=job.stage.name, step=state.global_step, of=state.max_steps, **told)

    return Telling()


def _kept(job: Job, trainer: Any, tokenizer: Any) -> None:
    """Save the model; adapters are merged, so that the next stage starts from plain weights."""
    trainer.accelerator.wait_for_everyone()
    model = trainer.accelerator.unwrap_model(trainer.model)
    if job.model.lora is not None:
        model = model.merge_and_unload()
    if trainer.accelerator.is_main_process:
        model.save_pretrained(str(job.made))
        tokenizer.save_pretrained(str(job.made))
    trainer.accelerator.wait_for_everyone()


def _sft(job: Job, rows: Sequence[Row], teller: Teller) -> None:
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    model, tokenizer = load(job)
    columns = ("prompt", "completion") if "completion" in rows[0] else ("messages",)
    data = Dataset.from_list([{key: row[key] for key in columns} for row in rows])
    trainer = SFTTrainer(
        model=model, processing_class=tokenizer, train_dataset=data, args=SFTConfig(**_arguments(job)),
        callbacks=[_telling(job, teller)], peft_config=_lora(job),
    )  # fmt: skip
    trainer.train()
    _kept(job, trainer, tokenizer)


def _rejection(job: Job, rows: Sequence[Row], teller: Teller) -> None:
    """Sample from the model and write down what the service pays. Fine-tuning on it is another job."""
    # A server has the model already; only the tokenizer is wanted here then.
    model, tokenizer = (None, tokenizer_of(job)) if job.stage.server else load(job)
    client, counted = Client.at(Path(job.door)), Counted(job.stage.most_failed)
    kept: list[Row] = []
    tasks = list({row["task_id"]: row for row in usable(short(job, rows, tokenizer, teller), client, counted, teller)}.values())
    asked = 0
    for at, row in enumerate(tasks):
        texts = sampled_from(job, row) if job.stage.server else sample(job, model, tokenizer, row)
        whole = [text for text in texts if not looping(text)]
        prices = client.price([item_of(text, row) for text in whole]) if whole else []
        counted.take(prices)
        asked += len(texts)
        paid: dict[str, tuple[float, str]] = {}
        for text, price in zip(whole, prices, strict=True):
            if price.reward is not None and price.reward >= job.stage.least:
                paid.setdefault(price.sha256, (price.reward, text))  # one of each program
        best = sorted(paid.values(), reverse=True)[: job.stage.keep]
        kept += [
            {"prompt": row["prompt"], "completion": [{"role": "assistant", "content": text}], "reward": value}
            for value, text in best
        ]
        rewards = [price.reward for price in prices if price.reward is not None]
        mean = sum(rewards) / len(rewards) if rewards else None
        teller.tell(
            STEP, stage=f"{job.stage.name}, sampling", step=at + 1, of=len(tasks), reward=mean, kept=len(best),
            outcomes=counted.taken(),
        )  # fmt: skip
    if not kept:
        raise StageFailed(
            f"None of {asked} samples of {len(tasks)} tasks was paid {job.stage.least} or more: there is nothing to learn from."
            " Raise `samples`, or start from a model that has learnt more."
        )
    with (Path(job.out) / KEPT_ROWS).open("w", encoding="utf-8") as out:
        out.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in kept)
    teller.tell(SAID, sentence=f"{len(kept)} of {asked} samples are kept to learn from.")


def _grpo(job: Job, rows: Sequence[Row], teller: Teller) -> None:
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    model, tokenizer = load(job)
    counted: Counted | None = None
    if job.stage.reward is None:
        reward: Any = judge_reward
    else:
        client, counted = Client.at(Path(job.door)), Counted(job.stage.most_failed)
        rows = usable(rows, client, counted, teller)
        reward = coder_reward(client, counted)
    names = "prompt skill task_id reference_code gpu_target parent_code feedback_items expert_scores_json expert_hack".split()
    used = short(job, rows, tokenizer, teller)
    data = Dataset.from_list([{name: row[name] for name in names if name in row} for row in used])
    trainer = GRPOTrainer(
        model=model, processing_class=tokenizer, reward_funcs=reward, train_dataset=data,
        args=GRPOConfig(**_arguments(job)), callbacks=[_telling(job, teller, counted)], peft_config=_lora(job),
    )  # fmt: skip
    trainer.train()
    _kept(job, trainer, tokenizer)
