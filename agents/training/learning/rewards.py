"""What TRL calls for rewards: the service for a Coder, agreement with experts for a judge."""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import Any

from agents.training.agreement import agreement
from agents.training.service.client import Client
from agents.training.service.contracts import NO_PROGRAM, Item, Priced

WINDOW = 128  # of the last programs, over which failures of the machine are counted
FEWEST = 16  # before so many nothing is said


class TooManyFailed(Exception):
    """The machine or the judge fails so often that what is learnt would be of the rest. The message is a sentence."""


def item_of(answer: str, row: Mapping[str, Any]) -> Item:
    """A completion and its row of `grpo_skill1` or `grpo_skill2` as an item."""
    feedback = row.get("skill") == "skill2"
    return Item(
        reference=row["reference_code"], answer=answer, target=row.get("gpu_target") or "cpu",
        parent=json.loads(row["parent_code"]) if feedback and row.get("parent_code") else {},
        skill="feedback" if feedback else "from_scratch", points=tuple(row.get("feedback_items") or ()),
    )  # fmt: skip


def said(completion: Any) -> str:
    """The text of a completion, conversational or not."""
    return completion if isinstance(completion, str) else str(completion[-1]["content"])


class Counted:
    """Counts what a service answered, and stops a run in which it answers too little."""

    def __init__(self, most_failed: float) -> None:
        self._most = most_failed
        self._last: deque[bool] = deque(maxlen=WINDOW)
        self.outcomes: Counter[str] = Counter()

    def take(self, prices: Sequence[Priced]) -> list[float | None]:
        """The rewards; None where there is none. Raises TooManyFailed."""
        tried = [one for one in prices if one.outcome != NO_PROGRAM]  # what holds no program says nothing of the machine
        self._last.extend(one.reward is None for one in tried)
        self.outcomes.update("error" if one.reward is None else one.outcome for one in prices)
        failed = sum(self._last)
        if len(self._last) >= FEWEST and failed > self._most * len(self._last):
            last = next((one.error for one in reversed(prices) if one.error), "")
            raise TooManyFailed(
                f"{failed} of the last {len(self._last)} programs got no reward, by no fault of theirs; the run stops at"
                f" more than {self._most:.0%}. The last of them: {last}"
            )
        return [one.reward for one in prices]

    def taken(self) -> dict[str, int]:
        """Outcomes since this was last asked."""
        found = dict(sorted(self.outcomes.items()))
        self.outcomes.clear()
        return found


def coder_reward(client: Client, counted: Counted) -> Any:
    """A reward function of TRL that asks the service; None where the service has no reward, which TRL leaves out."""

    def reward(completions: Sequence[Any], **columns: Any) -> list[float | None]:
        names = ("reference_code", "gpu_target", "skill", "parent_code", "feedback_items")
        rows = [{name: columns[name][at] for name in names if name in columns} for at in range(len(completions))]
        items = [item_of(said(one), row) for one, row in zip(completions, rows, strict=True)]
        return counted.take(client.price(items))

    return reward


def judge_reward(completions: Sequence[Any], **columns: Any) -> list[float]:
    """Agreement with the experts' scores that stand in the row."""
    scores, hacks = columns["expert_scores_json"], columns["expert_hack"]
    return [
        agreement(said(one), json.loads(levels), hack or "none")
        for one, levels, hack in zip(completions, scores, hacks, strict=True)
    ]
