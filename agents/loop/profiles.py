"""What profiles decide: when one is made, which item of the plan is next, and when there is nothing left to gain. Pure.

A profile is made of the reference before the first plan, of the first candidate that verifies, of each new best, and of what a
person asks for. The newest one of the program that the next candidate stands on says where the time is now.
"""

from __future__ import annotations

from agents.diagnosis import Diagnosis
from agents.loop.edit import with_todos
from agents.loop.rules import find
from agents.state import REFERENCE, Candidate, State, Status, Todo
from gpu_runner.contracts import Precision

GONE = 0.01  # of the forward: rows that take less are no reason for an attempt
MAX_ASKED = 8


def worth_profiling(state: State, candidate: Candidate, new_best: bool) -> bool:
    """Whether a candidate that was just timed is profiled: the first one that verifies, and each new best."""
    return new_best or not any(c.profile for c in state.candidates if c.id != candidate.id)


def take_asked(state: State) -> State | None:
    """The state in which the next profile that a person asked for is due; None when none is."""
    if not state.profiles_asked:
        return None
    name = state.profiles_asked[0]
    current = None if name == REFERENCE else name
    update = {"profiles_asked": state.profiles_asked[1:], "status": Status.PROFILING, "current": current}
    return state.model_copy(update=update)


def standing(state: State) -> Diagnosis | None:
    """The diagnosis of the program that the next candidate stands on: the best, or the reference while there is none."""
    best = find(state, state.best)
    return best.diagnosis if best else state.reference_diagnosis


def nothing_left(state: State) -> bool:
    """Whether what stands takes no longer than the least that this device needs for the same bytes and arithmetic.

    Only at the reference's own precision: a lower one has other ceilings. Arithmetic is a ceiling on the CPU alone (a GPU's
    tensor cores do float32 faster than its float32 units), and there only once a plan shows no way to do with less of it.
    """
    found = standing(state)
    if found is None or not found.at_roofline or state.options.precision is not Precision.AS_REFERENCE:
        return False
    if found.bound == "memory":
        return True
    if state.options.target != "cpu" or state.plan is None:
        return False
    return not any(t.kind == "algebra" and t.status in ("open", "doing") for t in state.plan.todos)


def without_moot(state: State) -> State:
    """Open items whose rows the best no longer spends time in are dropped, with the reason: another item took them along."""
    found, best = standing(state), find(state, state.best)
    if state.plan is None or best is None or found is None or not found.rows or state.plan.edited:
        return state
    note = f"Nothing of it is left: its rows take under {GONE:.0%} of {best.id}."
    todos = tuple(
        todo.model_copy(update={"status": "dropped", "note": note})
        if todo.status == "open" and todo.rows and found.share(todo.rows) < GONE
        else todo
        for todo in state.plan.todos
    )
    return with_todos(state, todos) if todos != state.plan.todos else state


def next_open(state: State) -> Todo | None:
    """The open item with most left to gain; in the plan's order where that is the same, or where a person has set the order."""
    todos = [t for t in state.plan.todos if t.status == "open"] if state.plan else []
    if not todos or state.plan is None or state.plan.edited:
        return todos[0] if todos else None
    return max(todos, key=lambda todo: (left_to_gain(state, todo), -todos.index(todo)))


def left_to_gain(state: State, todo: Todo) -> float:
    """The share of what stands that the item should save: what it was predicted to save of its rows, of those that are left.

    Without rows or profiles that show them: what it was predicted to save of the reference, over what stands.
    """
    saved = max(0.0, 1.0 - 1.0 / todo.predicted) if todo.predicted and todo.predicted > 0 else 0.0
    now, before, best = standing(state), state.reference_diagnosis, find(state, state.best)
    share = before.share(todo.rows) if before else 0.0
    if now is not None and now.rows and share > 0.0:
        left = now.share(todo.rows)
        return min(left, left * saved / share)
    return min(1.0, saved * ((best.speedup if best else None) or 1.0))
