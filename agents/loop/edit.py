"""Small replacements inside the immutable state."""

from __future__ import annotations

from typing import Literal

from agents.state import Candidate, Plan, State, Status, Todo
from gpu_runner.contracts import BlobRef


def change_candidate(state: State, candidate_id: str, **update: object) -> State:
    """The state with some fields of one candidate replaced."""
    candidates = tuple(c.model_copy(update=update) if c.id == candidate_id else c for c in state.candidates)
    return state.model_copy(update={"candidates": candidates})


def change_todo(state: State, todo_id: str, **update: object) -> State:
    """The state with some fields of one todo of the newest plan replaced."""
    if state.plan is None:
        return state
    return with_todos(state, tuple(t.model_copy(update=update) if t.id == todo_id else t for t in state.plan.todos))


def with_todos(state: State, todos: tuple[Todo, ...]) -> State:
    """The state with the newest plan's todos replaced, in place of a new version: their statuses moved, not the plan."""
    if state.plan is None:
        return state
    return with_plan(state, state.plan.model_copy(update={"todos": todos}))


def with_plan(state: State, plan: Plan) -> State:
    """The state with the newest plan replaced."""
    return state.model_copy(update={"plans": (*state.plans[:-1], plan)})


def add_candidate(
    state: State,
    *,
    parent: str | None,
    todo: str | None,
    title: str,
    files: dict[str, BlobRef],
    sha256: str,
    fingerprint: str = "",
    skill: Literal["from_scratch", "feedback"] = "from_scratch",
    author: Literal["engineer", "person"] = "engineer",
    note: str = "",
) -> State:
    """A candidate is born and its build is due."""
    candidate = Candidate(
        id=f"c{len(state.candidates) + 1}",
        parent=parent,
        todo=todo,
        title=title,
        skill=skill,
        author=author,
        files=files,
        sha256=sha256,
        fingerprint=fingerprint,
        status="building",
        note=note,
    )
    return state.model_copy(
        update={"candidates": (*state.candidates, candidate), "current": candidate.id, "status": Status.BUILDING}
    )
