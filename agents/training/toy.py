"""A task that a model of a few thousand weights can learn with real verdicts: its tokens are pieces of programs.

A completion is one to three pieces, so that most of what a random model writes does not parse, some is wrong or a cheat, and a
few programs are right, of which some are faster than the reference. All of it is judged by the Verifier like anything else. The
judge's task is made alike: its pieces are those of an answer in the judge's form.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from agents.judges import Case
from agents.judges.prompt import answer_text, user_text
from agents.rubric import DIMENSIONS
from agents.rubric.synthetic import labelled_set
from agents.training.prompts import coder_messages

REFERENCE = '''"""Three times the positive part, in a roundabout way."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) * 2.0 + torch.relu(x)


def get_inputs():
    return [torch.randn(512, 1024)]


def get_init_inputs():
    return []
'''
HEAD = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return "
EXPRESSIONS = (
    "x.clamp(min=0.0).mul_(3.0)",  # right, in two passes
    "torch.relu(x) * 3.0",  # right
    "torch.relu(x) * 2.0 + torch.relu(x)",  # right, the reference again
    "torch.zeros_like(x)",  # a hack
    "x * 3.0",  # wrong where x is negative
    "(x *",  # does not parse
)
ENDS = ("\n", " * 0.5", " + 0.0")
CODER = (HEAD, *EXPRESSIONS, *ENDS)
PARENT = {"model_new.py": HEAD + "torch.relu(x.double()).mul(3.0).float()\n"}
POINTS = ("The program computes in double precision, which doubles the memory that it moves.", "Stay in float32.")

_SCORES = [f', "{key}": ' for key in DIMENSIONS[1:]]
_REASONS = "\n".join([*(f"{key}: As the anchor says." for key in DIMENSIONS), f'{{"{DIMENSIONS[0]}": '])
JUDGE = (_REASONS, *"12345", *_SCORES, *(f', "hack_level": "{level}"}}' for level in ("none", "major")))
RUBRIC = "toy/1"


def coder_rows(skill: str) -> Iterator[dict[str, Any]]:
    """Rows as a release's `grpo_skill1` or `grpo_skill2` has them, as far as training reads them."""
    feedback = skill == "skill2"
    row: dict[str, Any] = {
        "prompt": coder_messages(REFERENCE, "cpu", parent=PARENT if feedback else None, points=POINTS if feedback else ()),
        "task_id": f"toy/{skill}", "skill": skill, "reference_code": REFERENCE, "gpu_target": "cpu", "rubric_ref": RUBRIC,
    }  # fmt: skip
    if feedback:
        row |= {"parent_code": json.dumps(PARENT, sort_keys=True), "feedback": "\n".join(POINTS), "feedback_items": POINTS}
    yield row


def judge_rows(count: int, seed: int = 3) -> Iterator[dict[str, Any]]:
    """Rows that `judge_sft_pc` and `judge_grpo` have both: the question, the answer that experts would give, their scores. Of
    the synthetic set, whose true levels are known."""
    made = labelled_set(count, max(2, count // 8), seed=seed)
    for candidate in made.candidates:
        case = Case(made.references[candidate.reference], candidate.files, skill=candidate.skill, target=candidate.target)
        hack = "major" if candidate.hack else "none"
        yield {
            "prompt": [{"role": "user", "content": user_text(case)}],
            "completion": [{"role": "assistant", "content": answer_text(candidate.levels, hack, {})}],
            "expert_scores_json": json.dumps(candidate.levels), "expert_hack": hack, "rubric_version": RUBRIC,
        }  # fmt: skip


def rows_of(config: str, count: int = 32, seed: int = 3) -> list[dict[str, Any]]:
    """The toy's rows in the place of a release's config. ValueError for a config that it has none for."""
    if config in ("grpo_skill1", "grpo_skill2"):
        return [row for row in coder_rows(config.removeprefix("grpo_")) for _ in range(count)]
    keys = {"judge_sft_pc": ("prompt", "completion"), "judge_grpo": ("prompt", "expert_scores_json", "expert_hack")}
    if config not in keys:
        raise ValueError(f"The toy has no rows of the config {config!r}; it has grpo_skill1, grpo_skill2, {', '.join(keys)}.")
    rows = [{key: row[key] for key in (*keys[config],)} for row in judge_rows(count, seed)]
    random.Random(seed).shuffle(rows)  # noqa: S311
    return rows
