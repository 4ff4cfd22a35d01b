"""What a person asks of a run that is under way."""

from __future__ import annotations

from typing import Any

from agents.loop.profiles import MAX_ASKED
from agents.loop.route import after_attempt, next_todo
from agents.loop.rules import MAX_TODOS, find
from agents.state import REFERENCE, Control, Plan, State, Status, StopCause, Todo

MAX_HINTS, MAX_HINT = 20, 2000
MAX_WAITING = 8


def refusal(state: State, control: Control) -> str:
    """Why a control cannot be taken now, as a sentence; empty when it can. Shells ask before they accept one."""
    if state.status.ended:
        return "The run has ended."
    working = state.resume if state.status is Status.PAUSED else state.status
    match control.kind:
        case "pause" if state.status is Status.PAUSED:
            return "The run is paused already."
        case "resume" if state.status is not Status.PAUSED:
            return "The run is not paused."
        case "approve_plan" if working is not Status.AWAITING_APPROVAL:
            return "No plan waits for approval."
        case "edit_plan" if state.plan is None or state.stop_cause is not None:
            return "There is no plan to edit at this moment."
        case "edit_plan" if not isinstance(control.data.get("todos"), list):
            return "An edited plan needs a list of todos."
        case "hint" if not str(control.data.get("text", "")).strip():
            return "The hint is empty."
        case "branch" if find(state, control.data.get("from")) is None:
            return "There is no such candidate to branch from."
        case "branch" if state.stop_cause is not None:
            return "Nothing more is written: the run confirms its best. Once it has ended, a new run can start from this one."
        case "profile" if state.stop_cause is not None:
            return "Nothing more is profiled: the run confirms its best."
        case "profile" if not _may_be_profiled(state, control.data.get("candidate")):
            return "Only the reference and candidates that were verified are profiled."
        case "profile" if len(state.profiles_asked) >= MAX_ASKED:
            return f"At most {MAX_ASKED} profiles may wait at a time."
        case "candidate" if not _has_files(control.data):
            return "The candidate has no files."
        case "candidate" if len(state.controls) >= MAX_WAITING:
            return f"At most {MAX_WAITING} candidates may wait at a time."
    return ""


def steer(state: State, control: Control, at: float) -> State:
    """The state after a person's request at time `at` (seconds since the epoch). One that is refused, or was taken before, does
    nothing but be remembered."""
    if control.id in state.steered:
        return state
    refused = refusal(state, control)
    state = state.model_copy(update={"steered": (*state.steered, control.id)})
    if refused:
        return state
    match control.kind:
        case "pause":
            return state.model_copy(update={"status": Status.PAUSED, "resume": state.status, "paused_at": at})
        case "resume":
            state = state.model_copy(update={"status": state.resume or Status.QUEUED, "resume": None, "paused_at": None})
            return _unless_waiting(state)
        case "cancel":
            update = {"status": Status.CANCELLED, "stop_cause": StopCause.CANCELLED, "resume": None, "paused_at": None}
            return state.model_copy(update=update | {"controls": (), "round": None})
        case "approve_plan":
            return _approved(state)
        case "edit_plan":
            return _edited(state, control)
        case "hint":
            text = str(control.data["text"]).strip()[:MAX_HINT]
            return state.model_copy(update={"hints": (*state.hints, text)[-MAX_HINTS:]})
        case "branch":
            return state.model_copy(update={"branch_from": control.data["from"]})
        case "profile":
            asked = tuple(dict.fromkeys((*state.profiles_asked, str(control.data["candidate"]))))
            return _unless_waiting(state.model_copy(update={"profiles_asked": asked}))
        case "candidate":
            return _unless_waiting(state.model_copy(update={"controls": (*state.controls, control)}))


def _may_be_profiled(state: State, name: object) -> bool:
    """The reference once it was looked at, and a candidate whose own attempt is over."""
    if name == REFERENCE:
        return state.analysis is not None
    candidate = find(state, str(name))
    return candidate is not None and candidate.verified and candidate.status == "done"


def _has_files(data: dict[str, Any]) -> bool:
    files = data.get("files")
    if not isinstance(files, dict) or not files:
        return False
    return all(isinstance(ref, dict) and set(ref) == {"sha256", "size"} for ref in files.values())


def _unless_waiting(state: State) -> State:
    """While the run waits for approval nothing is in flight, so what a person asks for is taken at once."""
    asked = state.controls or state.profiles_asked
    return after_attempt(state, None) if state.status is Status.AWAITING_APPROVAL and asked else state


def _approved(state: State) -> State:
    if state.plan is None:
        return state
    plan = state.plan.model_copy(update={"approved": True})
    state = state.model_copy(update={"plans": (*state.plans[:-1], plan)})
    if state.status is Status.PAUSED:
        moved = next_todo(state.model_copy(update={"status": Status.AWAITING_APPROVAL}))
        if moved.status.ended:
            return moved.model_copy(update={"resume": None, "paused_at": None})
        return moved.model_copy(update={"status": Status.PAUSED, "resume": moved.status})
    return next_todo(state)


def _edited(state: State, control: Control) -> State:
    """A new version of the plan: open todos renamed, reordered, dropped or added; what is in work or settled stays."""
    if state.plan is None:
        return state
    known = {todo.id: todo for todo in state.plan.todos}
    taken = {todo.id for plan in state.plans for todo in plan.todos}
    movable = {todo.id for todo in state.plan.todos if todo.status in ("open", "dropped")}
    edited: list[Todo] = []
    for wish in control.data["todos"]:
        if not isinstance(wish, dict):
            continue
        todo_id, title = str(wish.get("id") or ""), str(wish.get("title") or "").strip()[:200]
        status = "dropped" if wish.get("status") == "dropped" else "open"
        if todo_id in movable:
            movable.discard(todo_id)
            edited.append(known[todo_id].model_copy(update={"title": title or known[todo_id].title, "status": status}))
        elif not todo_id and title and len(known) + len(edited) < 4 * MAX_TODOS:
            number = len(taken) + 1
            while f"t{number}" in taken:
                number += 1
            taken.add(f"t{number}")
            edited.append(Todo(id=f"t{number}", kind="other", title=title, why=f"Added by {control.by or 'a person'}."))
    changed = {todo.id for todo in edited}
    kept = [todo for todo in state.plan.todos if todo.id not in changed]
    begun = [todo for todo in kept if todo.status not in ("open", "dropped")]
    unnamed = [todo for todo in kept if todo.status in ("open", "dropped")]
    plan = Plan(
        version=len(state.plans) + 1,
        todos=(*begun, *edited, *unnamed),
        note=f"Edited by {control.by or 'a person'}.",
        approved=state.plan.approved,
        edited=True,
    )
    return state.model_copy(update={"plans": (*state.plans, plan)})
