"""The arithmetic of the loop: what counts as a gain, who is the parent, what is spent. Small pure functions of a state."""

from __future__ import annotations

import math

from agents.state import Candidate, State, Status, StopCause, Todo
from gpu_runner.contracts import Interval, Speed, TimingReport

MAX_TRIES = 3  # of one todo since its last gain: the first attempt and two repairs
MAX_RETRIES = 2  # of one step after an infrastructure trouble
MAX_UNUSABLE_PLANS = 3
MAX_RETIMES, MAX_RECONFIRMS = 2, 1  # of one candidate whose gain noise hides; the full protocol costs more
VAGUE = 0.1  # half an interval, or the noise, beyond this share of the ratio
MAX_TODOS = 24
SMALLEST_GAIN = 1.02  # two timings in different processes agree no better than this on a quiet machine
CONFIRM_SHARE, CONFIRM_MOST_S = 0.25, 60.0  # of a wall or device budget, kept back for the confirmation


def ratio(over: Interval, under: Interval) -> Interval:
    """The quotient of two independent ratios; their relative errors add in squares."""
    value = over.value / under.value
    down = math.hypot(math.log(over.value / over.low), math.log(under.high / under.value))
    up = math.hypot(math.log(over.high / over.value), math.log(under.value / under.low))
    return Interval(value=value, low=value * math.exp(-down), high=value * math.exp(up))


def claimed(report: TimingReport | None) -> Interval | None:
    """The ratio over eager that may be claimed: None where the hands had a reason to claim nothing (their clocks disagreed, a
    second process measured something else), whatever figure stands beside the reason."""
    return None if report is None or report.speed is Speed.NOT_CLAIMED else report.over_eager


def measured(candidate: Candidate) -> Interval | None:
    """The candidate's ratio over eager from the loop's quick timing, None where it is missing or not a positive number."""
    over = claimed(candidate.timing)
    if over is None or not (0 < over.low <= over.value <= over.high < math.inf):
        return None
    return over


def beats_eager(report: TimingReport | None, faster_ratio: float) -> bool:
    """The claim itself: far enough above 1, further than two timings of one program differ, and its lower bound above 1."""
    over = claimed(report)
    return over is not None and over.low > 1.0 and over.value >= max(faster_ratio, 1.0 + noise_of(report))


def hidden_by_noise(report: TimingReport | None, faster_ratio: float) -> bool:
    """Whether it looks faster and cannot be called so because the measurement was vague: worth another one, when the machine
    may be quieter."""
    over = claimed(report)
    if over is None or over.value < faster_ratio or beats_eager(report, faster_ratio):
        return False
    return noise_of(report) > VAGUE or (over.high - over.low) / 2.0 > VAGUE * over.value


def noise_of(report: TimingReport | None) -> float:
    """How far two timings of one program lay apart, 0.01 = 1 %; nothing where that was not measured."""
    noise = report.noise if report else None
    return noise if noise is not None and math.isfinite(noise) else 0.0


def gain_over(candidate: Candidate, base: Candidate | None) -> Interval | None:
    """How much faster `candidate` is than the program it stood on (None: the reference), through both ratios over eager."""
    mine = measured(candidate)
    if mine is None or base is None:
        return mine
    theirs = measured(base)
    return ratio(mine, theirs) if theirs else mine


def significant(state: State, candidate: Candidate, base: Candidate | None) -> bool:
    """Whether the gain over `base` stands out of the noise; against the reference it must reach the protocol's threshold."""
    gain = gain_over(candidate, base)
    if gain is None or gain.low <= 1.0:
        return False
    if base is None:
        return beats_eager(candidate.timing, state.options.protocol.faster_ratio)
    noise = max(noise_of(c.timing) for c in (candidate, base))
    return gain.value >= max(SMALLEST_GAIN, 1.0 + noise)


def find(state: State, candidate_id: str | None) -> Candidate | None:
    """The candidate of that id, None when there is none."""
    return next((c for c in state.candidates if c.id == candidate_id), None)


def doing(state: State) -> Todo | None:
    """The todo in work."""
    return next((t for t in state.plan.todos if t.status == "doing"), None) if state.plan else None


def last_try(state: State, todo_id: str) -> Candidate | None:
    """The newest attempt at a todo: what is repaired when it failed, refined when it is verified."""
    return next((c for c in reversed(state.candidates) if c.todo == todo_id and c.author == "engineer"), None)


def ground(state: State, candidate_id: str | None) -> Candidate | None:
    """The verified and timed program that a chain of repairs stands on, None for the reference itself."""
    candidate = find(state, candidate_id)
    while candidate is not None and not (candidate.verified and measured(candidate)):
        candidate = find(state, candidate.parent)
    return candidate


def parent_of_next(state: State, todo_id: str) -> str | None:
    """The parent of the next candidate: the person's wish, the attempt being repaired or refined, or the best."""
    if state.branch_from is not None:
        return state.branch_from
    attempt = last_try(state, todo_id)
    return attempt.id if attempt else state.best


def dropped(state: State, candidate: Candidate) -> bool:
    """True when the confirmation took the candidate's claim away."""
    report = candidate.confirmed
    return report is not None and not beats_eager(report, state.options.protocol.faster_ratio)


def best_left(state: State) -> str | None:
    """The candidate that stands first now: the best as long as it holds, then the fastest other one that beats eager."""
    best = find(state, state.best)
    if best and best.verified and not dropped(state, best):
        return best.id
    fit = [
        (over.value, candidate.id)
        for candidate in state.candidates
        if candidate.verified and not dropped(state, candidate)
        if (over := measured(candidate)) and beats_eager(candidate.timing, state.options.protocol.faster_ratio)
    ]
    return max(fit)[1] if fit else None


def target_reached(state: State) -> bool:
    wish, best = state.options.target_speedup, find(state, state.best)
    over = measured(best) if best else None
    return wish is not None and over is not None and over.value >= wish


def confirmation_share(bound: float) -> float:
    """What of a budget of time is kept back for the confirmation of a best."""
    return min(CONFIRM_SHARE * bound, CONFIRM_MOST_S)


def spent(state: State, whole: bool = False) -> StopCause | None:
    """The bounded means that has run out. Of time, the loop keeps a share back for the confirmation while there is something
    to confirm; `whole` looks at the budget itself."""
    budget, usage = state.options.budget, state.usage
    keep = state.best is not None and not whole

    def over(used: float, bound: float | None, timed: bool) -> bool:
        if bound is None:
            return False
        return used >= bound - (confirmation_share(bound) if timed and keep else 0.0)

    if over(usage.wall_s, budget.wall_s, True):
        return StopCause.BUDGET_WALL
    if over(usage.tokens_in + usage.tokens_out, budget.tokens, False):
        return StopCause.BUDGET_TOKENS
    if over(usage.money, budget.money, False):
        return StopCause.BUDGET_MONEY
    if over(usage.device_s, budget.device_s, True):
        return StopCause.BUDGET_DEVICE
    return None


def counts_time(state: State) -> bool:
    """Whether the run's own clock runs: not while a person keeps it waiting."""
    return state.status not in (Status.PAUSED, Status.AWAITING_APPROVAL)
