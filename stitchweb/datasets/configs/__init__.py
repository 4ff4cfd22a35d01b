"""The fifteen configs of a release: rows made of a frozen snapshot, without the database, the same every time.

`data` reads a snapshot once; each module makes the rows of some configs; `schemas` says their columns. A config belongs to one
use: TRL refuses unlucky combinations of column names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from stitchweb.datasets.configs import coder, judge, programs, ratings
from stitchweb.datasets.configs.data import Data
from stitchweb.datasets.configs.schemas import SCHEMAS

Row = dict[str, Any]

MAKERS: dict[str, Callable[[Data], Iterator[tuple[str, Row]]]] = {
    "ratings_raw": ratings.raw,
    "ratings_agg": ratings.aggregated,
    "judge_sft": judge.sft,
    "judge_sft_pc": judge.sft_pc,
    "judge_pairwise": judge.pairwise,
    "judge_pref": judge.pref,
    "program_pref": programs.pref,
    "program_pref_flat": programs.pref_flat,
    "pointwise": programs.pointwise,
    "hack_unpaired": programs.hack_unpaired,
    "judge_grpo": judge.grpo,
    "grpo_skill1": coder.grpo_skill1,
    "grpo_skill2": coder.grpo_skill2,
    "verl_skill1": coder.verl_skill1,
    "verl_skill2": coder.verl_skill2,
}
CONFIGS = tuple(MAKERS)
OF_RATINGS = ("ratings_raw", "ratings_agg")  # the only ones with gold
TRAINING = ("train", "validation", "test")

USES = {
    "ratings_raw": "every label as it was given: the source of all others, psychometrics",
    "ratings_agg": "soft labels and what each candidate's labels come to",
    "judge_sft": "TRL SFT and verl SFT of a judge, `messages`",
    "judge_sft_pc": "TRL SFT of a judge, loss on the completion alone",
    "judge_pairwise": "TRL SFT of a judge that compares; each pair in both orders",
    "judge_pref": "TRL DPO of a judge",
    "program_pref": "TRL RewardTrainer and DPO on programs",
    "program_pref_flat": "verl's reward-model data, plain strings",
    "pointwise": "regression or ordinal heads",
    "hack_unpaired": "TRL KTO",
    "judge_grpo": "TRL GRPO of a judge against the experts",
    "grpo_skill1": "TRL GRPO of a Coder, from scratch",
    "grpo_skill2": "TRL GRPO of a Coder, feedback-driven",
    "verl_skill1": "verl PPO and GRPO, from scratch",
    "verl_skill2": "verl PPO and GRPO, feedback-driven",
}


def splits_of(config: str) -> tuple[str, ...]:
    """The splits of a config, each of which is a file, also where it is empty."""
    return (*TRAINING, "gold") if config in OF_RATINGS else TRAINING


def rows_of(data: Data, config: str) -> Iterator[tuple[str, Row]]:
    """Split and row, in an order that depends on the content alone. KeyError for no such config."""
    wanted = splits_of(config)
    for split, row in MAKERS[config](data):
        if split in wanted:
            yield split, row


__all__ = ["CONFIGS", "SCHEMAS", "USES", "Data", "Row", "rows_of", "splits_of"]
