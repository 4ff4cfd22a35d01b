"""What is said about the speed of a candidate, beside it and beside the item of the plan that it stands for."""

from __future__ import annotations

from agents.loop.edit import change_todo
from agents.loop.rules import gain_over, significant
from agents.state import Candidate, State
from gpu_runner.contracts import Speed, TimingReport


def timed_sentence(state: State, candidate: Candidate, base: Candidate | None, new_best: bool) -> str:
    """What the quick timing came to. It stays true whatever is found later: who is the best is the state's to say."""
    gain = gain_over(candidate, base)
    if gain is None:
        return (candidate.timing.sentence if candidate.timing else "") or "It could not be timed."
    over = f"{gain.value:.2f}× over {base.id if base else 'the reference'} (95 % interval {gain.low:.2f}–{gain.high:.2f})"
    if new_best:
        return f"The fastest up to then, in quick timing: {over}."
    if gain.high < 1.0:
        return f"Slower, in quick timing: {over}."
    if not significant(state, candidate, base):
        return f"In quick timing the difference does not stand out of the noise: {over}."
    return f"In quick timing {over}, but {state.best or 'the reference'} was not beaten beyond the noise."


def confirmed_sentence(report: TimingReport, stands: bool) -> str:
    """What the full protocol found; `stands`: the claim holds."""
    over = report.over_eager
    seen = f"{over.value:.2f}× over eager ({over.low:.2f}–{over.high:.2f})" if over else ""
    if stands:
        return f"Confirmed by the full protocol: {seen}."
    why = f" {report.sentence}" if report.speed is Speed.NOT_CLAIMED or not seen else ""
    return f"The full protocol did not confirm the speed{': ' if seen else ''}{seen}.{why}"


def told_by_confirmation(state: State, candidate: Candidate, stands: bool) -> State:
    """The item that the candidate stands for says what the full protocol found, not what the quick timing had promised."""
    todo = next((t for t in state.plan.todos if t.id == candidate.todo), None) if state.plan else None
    if todo is None or todo.status != "done":
        return state
    if not stands:
        nothing: dict[str, object] = {"measured": None, "measured_low": None, "measured_high": None}
        return change_todo(state, todo.id, status="no-gain", note=candidate.note, **nothing)
    return change_todo(state, todo.id, note=candidate.note)
