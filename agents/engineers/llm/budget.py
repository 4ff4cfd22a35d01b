"""What a question may cost at most, asked before it is put: the prompt by an upper estimate, the answer at its full length."""

from __future__ import annotations

from dataclasses import dataclass

from agents.engineers import BudgetSpent
from agents.llm.client import Price
from agents.state import Budget, StopCause, Usage

LEAST_ANSWER = 256  # tokens; a shorter answer holds no program
LEAST_S = 5.0


@dataclass(frozen=True)
class Allowance:
    """How long the answer may be (tokens), and how long it may take (seconds)."""

    max_tokens: int
    seconds: float


def allowance(budget: Budget, used: Usage, prompt: int, wanted: Allowance, price: Price | None) -> Allowance:
    """As much of `wanted` as the budget leaves after a prompt of so many tokens. `used`: of the run and of this step so far.

    BudgetSpent when what is left admits no answer worth asking for. Without a price money bounds nothing.
    """
    most, seconds = wanted.max_tokens, wanted.seconds
    if budget.tokens is not None:
        left = budget.tokens - used.tokens_in - used.tokens_out - prompt
        if left < LEAST_ANSWER:
            raise BudgetSpent(_sentence("tokens", f"about {prompt} tokens of a question"), StopCause.BUDGET_TOKENS)
        most = min(most, left)
    if budget.money is not None and price is not None:
        left_money = budget.money - used.money - price.of(prompt, 0)
        if left_money < price.of(0, LEAST_ANSWER) or left_money < 0.0:
            raise BudgetSpent(_sentence("money", f"about ${price.of(prompt, 0):.4f} of a question"), StopCause.BUDGET_MONEY)
        if price.tokens_out > 0:
            most = min(most, int(left_money / price.tokens_out))
    if budget.wall_s is not None:
        left_s = budget.wall_s - used.wall_s
        if left_s < LEAST_S:
            raise BudgetSpent("What is left of the run's time is too short to ask a model.", StopCause.BUDGET_WALL)
        seconds = min(seconds, left_s)
    return Allowance(most, seconds)


def _sentence(means: str, question: str) -> str:
    return f"What is left of the run's {means} does not cover {question} and a short answer, so nothing was asked."
