"""What a state asks for next."""

from __future__ import annotations

from agents.loop.rules import doing, last_try
from agents.state import State, Status, Step, StepKind, Stop

_KINDS: dict[Status, StepKind] = {
    Status.QUEUED: "analyse",
    Status.ANALYSING: "analyse",
    Status.PLANNING: "plan",
    Status.CODING: "code",
    Status.BUILDING: "build",
    Status.CHECKING: "check",
    Status.TIMING: "time",
    Status.PROFILING: "profile",
    Status.DECIDING: "decide",
}


def next_step(state: State) -> Step | Stop:
    """The step that is due, or why there is none: ended, paused, or waiting for a person to approve the plan.

    A `code` step names the todo and, when one is there, the earlier attempt to repair or refine. Once a stop cause is set, the
    remaining steps are the best candidate's `check` under the full protocol and its `confirm`, or without one a `confirm` that
    times the baselines alone. During a round several steps are due (`open_steps`); this is the first of them.
    """
    if state.status.ended or state.status in (Status.PAUSED, Status.AWAITING_APPROVAL):
        return Stop(status=state.status, cause=state.stop_cause)
    return due(state, state.status)[0]


def open_steps(state: State) -> tuple[Step, ...]:
    """All steps that are to be done now, in any order and at once; empty where `next_step` is a Stop."""
    return () if isinstance(next_step(state), Stop) else due(state, state.status)


def under_way(state: State) -> tuple[Step, ...]:
    """The steps whose outcomes are still taken: the open ones, and while the run is paused those that it was paused in."""
    working = state.resume if state.status is Status.PAUSED else state.status
    if working is None or working.ended or working is Status.AWAITING_APPROVAL:
        return ()
    return due(state, working)


def due(state: State, status: Status) -> tuple[Step, ...]:
    """The steps that belong to a working status: one, or one of each lane of a round."""
    if state.round is not None:
        return tuple(
            Step(
                index=lane.step,
                kind=_KINDS[lane.status],
                candidate=lane.base if lane.status is Status.CODING else lane.candidate,
                todo=state.round.todo,
                lane=lane.number,
            )
            for lane in state.round.lanes
            if lane.step is not None
        )
    kind = _KINDS[status]
    if kind == "code":
        todo = doing(state)
        attempt = last_try(state, todo.id) if todo else None
        return (Step(index=state.step, kind=kind, candidate=attempt.id if attempt else None, todo=todo.id if todo else None),)
    if kind == "time" and state.stop_cause is not None:
        kind = "confirm"
    candidate = next((c for c in state.candidates if c.id == state.current), None)
    return (Step(index=state.step, kind=kind, candidate=state.current, todo=candidate.todo if candidate else None),)
