"""The reward function that verl loads from this file, and what its tool says. Asks the reward service through its door.

verl knows no missing reward. Where the service has none, this tries again and then raises: the run stops with the sentence, and
no neutral score is learnt from.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agents.training.service.client import Client
from agents.training.service.contracts import Item, Priced

TRIES, WAIT_S = 3, 5.0


class RewardMissing(RuntimeError):
    """The service gave no reward, by no fault of the candidate. The message is a sentence."""


def item_of(solution: str, ground_truth: str, extra_info: Mapping[str, Any]) -> Item:
    """A solution and its row of `verl_skill1` or `verl_skill2` as an item."""
    truth = json.loads(ground_truth)
    parent = str(extra_info.get("parent_code") or "")
    feedback = str(extra_info.get("feedback") or "")
    return Item(
        reference=truth["reference"], answer=solution, target=truth["target"], parent=json.loads(parent) if parent else {},
        skill="feedback" if parent else "from_scratch", points=tuple(feedback.splitlines()),
    )  # fmt: skip


def priced(item: Item, door: str, wait_s: float = WAIT_S) -> Priced:
    """One candidate's price. Raises RewardMissing after `TRIES`, NoService where there is no service."""
    found = Priced(error="nothing was asked")
    for number in range(TRIES):
        if number:
            time.sleep(wait_s)
        (found,) = Client.at(Path(door)).price([item])
        if found.reward is not None:
            return found
    raise RewardMissing(f"The reward service has no reward after {TRIES} tries: {found.error}")


def compute_score(
    data_source: str, solution_str: str, ground_truth: str, extra_info: Mapping[str, Any] | None = None, door: str = "",
    **more: Any,
) -> dict[str, Any]:  # fmt: skip
    """As verl calls it. `score` is the reward; the rest are metrics of it."""
    found = priced(item_of(solution_str, ground_truth, extra_info or {}), door)
    speedup = found.inputs.speedup if found.inputs else None
    return {"score": found.reward, "verified": float(found.outcome == "verified"), "speedup": speedup or 0.0}


def told(found: Priced) -> str:
    """What a model is told of its program while it works on it."""
    words = [f"{found.outcome}: {found.sentence}".rstrip(": ")]
    if found.inputs and found.inputs.speedup:
        words.append(f"Speed over eager: {found.inputs.speedup:.2f}.")
    return " ".join(words)
