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
    remaining steps are the best candidate's `check` under the full protocol and its `confirm`.
    """
    if state.status.ended or state.status in (Status.PAUSED, Status.AWAITING_APPROVAL):
        return Stop(status=state.status, cause=state.stop_cause)
    return due(state, state.status)


def due(state: State, status: Status) -> Step:
    """The step that belongs to a working status."""
    kind = _KINDS[status]
    if kind == "code":
        todo = doing(state)
        attempt = last_try(state, todo.id) if todo else None
        return Step(index=state.step, kind=kind, candidate=attempt.id if attempt else None, todo=todo.id if todo else None)
    if kind == "time" and state.stop_cause is not None:
        kind = "confirm"
    candidate = next((c for c in state.candidates if c.id == state.current), None)
    return Step(index=state.step, kind=kind, candidate=state.current, todo=candidate.todo if candidate else None)
