"""How an outcome changes the state: what it answers, what it costs, and who takes it in."""

from __future__ import annotations

from agents.loop.attempt import built, checked, coded, no_code, own_decision, profiled, timed
from agents.loop.clock import account, clock
from agents.loop.due import under_way
from agents.loop.ending import baselines, confirmed
from agents.loop.lanes import in_lane, settled
from agents.loop.opening import analysed, no_plan, planned
from agents.loop.route import after_attempt, fail, finish
from agents.loop.rules import MAX_RETRIES, spent
from agents.loop.steering import steer
from agents.loop.ties import settled_by_judge
from agents.state import (
    Analysed,
    Broken,
    Built,
    Checked,
    Coded,
    Decided,
    Outcome,
    Planned,
    Profiled,
    State,
    Status,
    Steered,
    StepKind,
    Timed,
    Unusable,
)
from gpu_runner.contracts import TimingReport

_ANSWERS: dict[type[Outcome], tuple[StepKind, ...]] = {
    Analysed: ("analyse",),
    Planned: ("plan",),
    Coded: ("code",),
    Built: ("build",),
    Checked: ("check",),
    Timed: ("time", "confirm"),
    Profiled: ("profile",),
    Decided: ("decide",),
    Unusable: ("plan", "code", "decide"),
}


def start(state: State, at: float) -> State:
    """The run begins to work: its clock runs from `at` (seconds since the epoch). A run that was started stays as it is."""
    if state.status is not Status.QUEUED or state.started_at is not None:
        return state
    return state.model_copy(update={"status": Status.ANALYSING, "started_at": at, "now": at})


def apply(state: State, outcome: Outcome) -> State:
    """The state after `outcome`. An outcome that answers no step under way (late, twice, of another kind) changes nothing.

    A person's `Steered` is taken at any moment and does not count as a step. While the run is paused, the outcomes of the steps
    that were in flight are still taken, so that no work is lost; the run stays paused.
    """
    if state.status.ended:
        return state
    if isinstance(outcome, Steered):
        return _steered(clock(state, outcome.at), outcome)
    step = next((step for step in under_way(state) if step.index == outcome.step), None)
    if step is None or not (isinstance(outcome, Broken) or step.kind in _ANSWERS[type(outcome)]):
        return state

    # A step of the hands takes as long as they worked on it; what it waited for a runner is nobody's fault and not charged.
    state = account(clock(state, outcome.at, outcome.seconds if step.by_hands else None), outcome, step.by_hands)
    paused, rounds = state.status is Status.PAUSED, state.rounds
    working = state.resume if paused and state.resume is not None else state.status
    state = state.model_copy(update={"status": working, "step": state.step + 1})
    if step.lane is not None:
        state = in_lane(state, step, outcome, paused)
    elif isinstance(outcome, Broken):
        state = _broken(state, step.kind, outcome.reason)
    else:
        state = _worked(state, step.kind, outcome)
    idle = state.round is None or state.rounds != rounds  # a round that has just been opened has nothing in flight
    if idle and not state.status.ended and state.stop_cause is None and (cause := spent(state)) is not None:
        state = finish(state, cause)
    if paused and not state.status.ended:
        state = state.model_copy(update={"resume": state.status, "status": Status.PAUSED})
    elif paused:
        state = state.model_copy(update={"resume": None, "paused_at": None})
    return state


def _steered(state: State, outcome: Steered) -> State:
    after = steer(state, outcome.control, outcome.at)
    resumed = state.status is Status.PAUSED and after.status is not Status.PAUSED and not after.status.ended
    if not resumed:
        return after
    if after.round is not None:
        return settled(after)
    if after.stop_cause is None and (cause := spent(after)) is not None:
        # another step is due than the one that may be in flight since before the pause: a new index keeps them apart
        after = finish(after, cause).model_copy(update={"step": after.step + 1})
    return after


def _broken(state: State, kind: StepKind, reason: str) -> State:
    tries = state.retries.get(kind, 0) + 1
    if tries <= MAX_RETRIES:
        return state.model_copy(update={"retries": state.retries | {kind: tries}})
    if kind == "profile":  # a run without a profile is still a run
        return profiled(state.model_copy(update={"retries": state.retries | {kind: 0}}), None)
    if kind == "confirm" and state.current is None:  # and one without baselines
        return baselines(state, TimingReport(sentence=f"The baselines could not be timed, {tries} times in a row. {reason}"))
    return fail(state, f"The {kind} step could not be done, {tries} times in a row. {reason}".strip())


def _worked(state: State, kind: StepKind, outcome: Outcome) -> State:
    state = state.model_copy(update={"retries": {k: n for k, n in state.retries.items() if k != kind}})
    match outcome:
        case Analysed():
            return analysed(state, outcome.analysis)
        case Planned():
            return planned(state, outcome)
        case Coded():
            return coded(state, outcome)
        case Built():
            return built(state, outcome)
        case Checked():
            return checked(state, outcome)
        case Timed() if kind == "confirm":
            return confirmed(state, outcome)
        case Timed():
            return timed(state, outcome.report)
        case Profiled():
            return profiled(state, outcome)
        case Decided():
            return after_attempt(*settled_by_judge(state, outcome.decision, outcome.ratings))
        case Unusable() if outcome.spent is not None:
            return finish(state.model_copy(update={"error": outcome.reason}), outcome.spent)
        case Unusable() if kind == "plan":
            return no_plan(state, outcome.reason)
        case Unusable() if kind == "code":
            return no_code(state, outcome.reason)
        case Unusable():
            sentence = f"The Verifier's answer could not be used ({outcome.reason}); the loop's own rules decide."
            return after_attempt(*settled_by_judge(state, own_decision(state, sentence), outcome.ratings))
    return state
