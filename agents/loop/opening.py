"""Before the first candidate: the analysis, and plans."""

from __future__ import annotations

from agents.loop.clock import counted
from agents.loop.route import after_attempt, fail, finish
from agents.loop.rules import MAX_TODOS, MAX_UNUSABLE_PLANS, spent
from agents.state import AnalysisSummary, Plan, Planned, State, Status, StopCause
from gpu_runner.contracts import Label


def analysed(state: State, analysis: AnalysisSummary) -> State:
    """The reference is profiled next, unless no run means anything on it."""
    state = state.model_copy(update={"analysis": analysis})
    reason = _refusal(analysis)
    if analysis.refusal and analysis.refusal.code == "timed_out" and spent(state, whole=True) is StopCause.BUDGET_WALL:
        # What was over was the run's own time: of the program that says nothing.
        return state.model_copy(update={"status": Status.CANCELLED, "stop_cause": StopCause.BUDGET_WALL})
    if reason:
        return state.model_copy(update={"status": Status.FINISHED, "stop_cause": StopCause.REFUSED, "error": reason})
    return state.model_copy(update={"status": Status.PROFILING, "current": None})


def _refusal(analysis: AnalysisSummary) -> str:
    """Why no run means anything on this program, as a sentence; empty when one does."""
    if analysis.refusal:
        return f"{analysis.refusal.sentence} {analysis.refusal.way_out}".strip()
    if analysis.nulls or Label.DEGENERATE in analysis.labels:
        names = ", ".join(analysis.nulls) or "a trivial program"
        return (
            f"The program is degenerate: {names} already passes its check, so no speed could be claimed on it. "
            "Change its inputs or weights so that the result depends on the input."
        )
    if Label.STOCHASTIC in analysis.labels:
        return (
            "The program is stochastic: two runs on the same input differ, so no candidate could be compared with it. "
            "Put it into eval mode or take the random operations out."
        )
    return ""


def planned(state: State, outcome: Planned) -> State:
    """A new version of the plan: what is settled stays, what is open gives way, ids are made the run's own."""
    settled = tuple(
        todo.model_copy(update={"status": "dropped", "note": todo.note or "Replaced by a newer plan."})
        if todo.status in ("open", "doing")
        else todo
        for todo in (state.plan.todos if state.plan else ())
    )
    taken = {todo.id for plan in state.plans for todo in plan.todos}
    untried = {"status": "open", "measured": None, "measured_low": None, "measured_high": None, "note": ""}
    fresh = []
    for todo in outcome.todos[:MAX_TODOS]:
        todo_id, number = todo.id, len(taken) + 1
        while not todo_id or todo_id in taken or todo_id == "plan":
            todo_id, number = f"t{number}", number + 1
        taken.add(todo_id)
        fresh.append(todo.model_copy(update=untried | {"id": todo_id}))
    plan = Plan(
        version=len(state.plans) + 1,
        todos=settled + tuple(fresh),
        note=outcome.note,
        approved=not state.options.approve_plan or not fresh,
    )
    tries = {key: n for key, n in state.tries.items() if key != "plan"}
    state = state.model_copy(update={"plans": (*state.plans, plan), "tries": tries, "failures_in_row": 0, "error": ""})
    return after_attempt(state, None)


def no_plan(state: State, reason: str) -> State:
    """The Planner's answer could not be used: once more, a few times."""
    state = counted(state, "plan")
    sentence = f"The Planner's answer could not be used: {reason}"
    if state.tries["plan"] >= MAX_UNUSABLE_PLANS or state.usage.attempts >= state.options.budget.attempts:
        if state.plan is None and not state.candidates:
            return fail(state, sentence)
        return finish(state.model_copy(update={"error": sentence}), StopCause.TODOS_DONE)
    return state.model_copy(update={"error": sentence})
