"""What an outcome costs: the run's clock, and what it spent."""

from __future__ import annotations

from agents.loop.rules import counts_time
from agents.state import Outcome, State, Usage


def clock(state: State, at: float, most: float | None = None) -> State:
    """The run's clock at `at`; `most`: seconds that may be charged at most."""
    now = state.now if state.now is not None else at
    passed = max(0.0, at - now) if counts_time(state) and state.started_at is not None else 0.0
    passed = passed if most is None else min(passed, max(0.0, most))
    usage = state.usage.model_copy(update={"wall_s": state.usage.wall_s + passed})
    return state.model_copy(update={"now": max(now, at), "usage": usage})


def account(state: State, outcome: Outcome, by_hands: bool) -> State:
    """The run's usage with what the outcome's step spent."""
    usage = added(state.usage, outcome, by_hands)
    if state.started_at is None:  # the shell did not say when it began: the first outcome does
        usage = usage.model_copy(update={"wall_s": max(0.0, outcome.seconds)})
        state = state.model_copy(update={"started_at": outcome.at - max(0.0, outcome.seconds)})
    return state.model_copy(update={"usage": usage})


def added(usage: Usage, outcome: Outcome, by_hands: bool) -> Usage:
    """`usage` with the tokens, the money and the device seconds of one step."""
    more: Usage = getattr(outcome, "usage", Usage())
    update: dict[str, object] = {
        "tokens_in": usage.tokens_in + max(0, more.tokens_in),
        "tokens_out": usage.tokens_out + max(0, more.tokens_out),
        "unpriced": usage.unpriced + max(0, more.unpriced),
        "money": usage.money + max(0.0, more.money),
        "device_s": usage.device_s + (max(0.0, outcome.seconds) if by_hands else max(0.0, more.device_s)),
    }
    return usage.model_copy(update=update)


def counted(state: State, key: str) -> State:
    """One more attempt spent, and one more on `key`: an item of the plan, or "plan"."""
    return attempted(state).model_copy(update={"tries": state.tries | {key: state.tries.get(key, 0) + 1}})


def attempted(state: State) -> State:
    """One more attempt spent."""
    usage = state.usage.model_copy(update={"attempts": state.usage.attempts + 1})
    return state.model_copy(update={"usage": usage})
