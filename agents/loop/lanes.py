"""How a round goes on and ends: each outcome moves one lane; after the last one a single candidate of it is decided on.

In a lane a candidate goes the same way as alone. What a candidate alone does to the rows of failures, of gainless attempts and
of tries, a round does once, when it is over. A round is never cut off: once a budget is spent its lanes begin nothing more, and
what is under way is still taken, so that all of it is counted and no work is lost.
"""

from __future__ import annotations

from agents.loop.attempt import born_in_round, built, checked, judged_next, rejected, repeated, timed
from agents.loop.clock import added, attempted
from agents.loop.edit import change_candidate
from agents.loop.profiles import worth_profiling
from agents.loop.rounds import LEAST_DEVICE_S, device_left
from agents.loop.route import after_attempt, fail, finish
from agents.loop.rules import MAX_RETRIES, MAX_TRIES, find, ground, measured, significant, spent
from agents.state import (
    Broken,
    Built,
    Candidate,
    Checked,
    Coded,
    Decision,
    Lane,
    Outcome,
    Round,
    State,
    Status,
    Step,
    Timed,
    Unusable,
)

MAX_REPEATS = 1  # of a program that was there before, told to the lane's Coder; after that the lane is over
ORDER = (Status.CODING, Status.BUILDING, Status.CHECKING, Status.TIMING)
_LEFT = "Left where it was: the budget was spent."


def in_lane(state: State, step: Step, outcome: Outcome, paused: bool) -> State:
    """The state after the outcome of a step of the round under way. `paused`: nothing is begun after it."""
    assert state.round is not None
    lane = next(one for one in state.round.lanes if one.number == step.lane)
    lane = lane.model_copy(update={"usage": added(lane.usage, outcome, step.by_hands), "step": None})
    if isinstance(outcome, Broken):
        lane = lane.model_copy(update={"retries": lane.retries + 1})
        if lane.retries > MAX_RETRIES:
            reason = f"The {step.kind} step could not be done, {lane.retries} times in a row. {outcome.reason}".strip()
            lane = lane.model_copy(update={"over": True, "broken": reason})
            state = _left(state, lane, outcome.reason)
    else:
        state, lane = _moved(state, lane.model_copy(update={"retries": 0}), outcome)
    return settled(_with(state, lane), paused)


def _moved(state: State, lane: Lane, outcome: Outcome) -> tuple[State, Lane]:
    match outcome:
        case Unusable():
            if outcome.spent is not None:
                return state, lane.model_copy(update={"over": True, "spent": outcome.spent, "broken": outcome.reason})
            return rejected(attempted(state), outcome.reason), lane.model_copy(update={"over": True})
        case Coded() if why := repeated(state, outcome):
            state = rejected(attempted(state), why)
            again = state.options.search.samples and lane.repeats < MAX_REPEATS and _attempt_free(state, lane)
            return state, lane.model_copy(update={"repeats": lane.repeats + 1, "over": not again})
    focus = state.model_copy(update={"status": lane.status, "current": lane.candidate})
    after = focus
    match outcome:
        case Coded():
            after = born_in_round(focus, outcome, state.rounds)
        case Built():
            after = built(focus, outcome)
        case Checked():
            after = checked(focus, outcome)
        case Timed():
            after = timed(focus, outcome.report)
    lane = lane.model_copy(update={"candidate": after.current})
    lane = lane.model_copy(update={"status": after.status} if after.status in ORDER else {"over": True})
    if lane.over:
        after = change_candidate(after, lane.candidate or "", status="done")
    rows = {"failures_in_row": state.failures_in_row, "gainless_in_row": state.gainless_in_row, "tries": state.tries}
    return after.model_copy(update={**rows, "current": None}), lane


def _attempt_free(state: State, lane: Lane) -> bool:
    """Whether an attempt is left besides those that other lanes are about to make."""
    assert state.round is not None
    coding = sum(not one.over and one.status is Status.CODING and one.number != lane.number for one in state.round.lanes)
    return state.usage.attempts + coding < state.options.budget.attempts


def settled(state: State, paused: bool = False) -> State:
    """Every lane that may go on has its next step, the others are over; with none left the round is."""
    assert state.round is not None
    for lane in state.round.lanes:
        if lane.over or lane.step is not None:
            continue
        left = device_left(lane)
        short = left is not None and left < LEAST_DEVICE_S and lane.status is not Status.CODING
        if short or spent(state) is not None:
            state = _with(_left(state, lane, _LEFT), lane.model_copy(update={"over": True}))
        elif not paused:
            state = _with(state, lane.model_copy(update={"step": state.step}))
            state = state.model_copy(update={"step": state.step + 1})
    assert state.round is not None
    open_lanes = [lane.status for lane in state.round.lanes if not lane.over]
    if not open_lanes:
        return _joined(state.model_copy(update={"round": None}), state.round)
    return state.model_copy(update={"status": min(open_lanes, key=ORDER.index)})


def _left(state: State, lane: Lane, why: str) -> State:
    candidate = find(state, lane.candidate)
    if candidate is None or candidate.status == "done":
        return state
    return change_candidate(state, candidate.id, status="done", note=candidate.note if candidate.verified else why[:600])


def _with(state: State, lane: Lane) -> State:
    assert state.round is not None
    lanes = tuple(lane if one.number == lane.number else one for one in state.round.lanes)
    return state.model_copy(update={"round": state.round.model_copy(update={"lanes": lanes})})


def _joined(state: State, round_: Round) -> State:
    """The round is over: its rows grow by one, and its best candidate is profiled or decided on."""
    written = [c for lane in round_.lanes if (c := find(state, lane.candidate))]
    right = [c for c in written if c.verified and c.timing is not None]
    gained = [c for c in right if c.id == state.best or significant(state, c, ground(state, c.parent))]
    row = {
        "failures_in_row": 0 if right else state.failures_in_row + 1,
        "gainless_in_row": 0 if gained else state.gainless_in_row + bool(right),
        "tries": state.tries | {round_.todo: 0 if gained else state.tries.get(round_.todo, 0) + 1},
    }
    state = state.model_copy(update=row)
    if all(lane.broken and lane.spent is None for lane in round_.lanes):
        return fail(state, round_.lanes[0].broken)
    if (cause := spent(state)) is not None:
        return finish(state, cause)
    unpaid = next((lane for lane in round_.lanes if lane.spent), None)
    if not written and unpaid is not None and unpaid.spent is not None:
        return finish(state.model_copy(update={"error": unpaid.broken}), unpaid.spent)
    pick = _pick(state, written)
    if pick is None:
        given_up = state.tries[round_.todo] >= MAX_TRIES
        return after_attempt(state, Decision(candidate=None, route="advance") if given_up else None)
    profile = pick in right and worth_profiling(state, pick, pick.id == state.best != round_.best)
    return judged_next(state.model_copy(update={"current": pick.id}), profile)


def _pick(state: State, written: list[Candidate]) -> Candidate | None:
    """The candidate that the Verifier is asked about: the new best, else the fastest right one, else the one that came
    furthest."""

    def key(candidate: Candidate) -> tuple[bool, bool, float, bool, bool]:
        over = measured(candidate) if candidate.verified else None
        return (
            candidate.id == state.best,
            candidate.verified and candidate.timing is not None,
            over.value if over else 0.0,
            candidate.timing is not None,
            candidate.check is not None,
        )

    judged = [c for c in written if c.verdict is not None]
    return max(judged, key=key) if judged else None
