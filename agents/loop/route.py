"""Where the loop goes once an attempt is over, and how it ends. The Verifier proposes; these rules bound it."""

from __future__ import annotations

from agents.loop.edit import add_candidate, change_candidate, change_todo
from agents.loop.profiles import next_open, nothing_left, take_asked, without_moot
from agents.loop.rounds import opened
from agents.loop.rules import MAX_TRIES, best_left, doing, find, ground, significant, spent, target_reached
from agents.state import Candidate, Decision, State, Status, StopCause
from gpu_runner.contracts import BlobRef, CheckReport, TimingReport, Verdict, digest

# Causes after which a person's waiting candidate is still tried: nothing that bounds the machine's time has run out.
_SOFT = frozenset(
    {StopCause.TODOS_DONE, StopCause.NO_GAIN, StopCause.TARGET_REACHED, StopCause.AT_ROOFLINE, StopCause.BUDGET_ATTEMPTS}
)

_SENTENCES = {
    Verdict.INCORRECT: "Its result differs from the reference's.",
    Verdict.INPUT_SPECIALISED: "It is right on the declared inputs only.",
    Verdict.HACK: "It does not do the work that it claims.",
    Verdict.BUILD_FAILED: "The kernels did not build.",
    Verdict.CRASHED: "It crashed.",
    Verdict.TIMED_OUT: "It ran past its time limit.",
}


def failure_sentence(report: CheckReport | TimingReport) -> str:
    """What a report says of a candidate that failed; words of ours where it brought none."""
    known = _SENTENCES.get(report.verdict) if report.verdict else None
    return report.sentence or known or f"The verdict is {report.verdict}."


def after_attempt(state: State, decision: Decision | None) -> State:
    """Go on after an attempt (or a plan, with no decision): settle the todo as the decision says, then take what is due.

    A person's candidate goes first, then a profile that a person asked for. Then the budgets of attempts and patience, and
    whether the profiles leave anything to gain; then a new plan when the Verifier or the row of failures asks for one, then the
    todo in work, then the open one that promises most.
    """
    if decision is not None:
        state = state.model_copy(update={"decisions": (*state.decisions, decision)}) if decision.candidate else state
        state = _routed(state, decision)
    state = state.model_copy(update={"current": None})
    hand_made = take_hand_made(state)
    if hand_made is not None:
        return hand_made
    if (asked := take_asked(state)) is not None:
        return asked
    if target_reached(state):
        return finish(state, StopCause.TARGET_REACHED)
    if decision is not None and decision.route == "stop":
        return finish(state, StopCause.NO_GAIN)
    if state.usage.attempts >= state.options.budget.attempts:
        return finish(state, StopCause.BUDGET_ATTEMPTS)
    if state.gainless_in_row >= state.options.patience:
        return finish(state, StopCause.NO_GAIN)
    if nothing_left(state):
        return finish(state, StopCause.AT_ROOFLINE)
    plan = state.plan
    if plan is None:
        return state.model_copy(update={"status": Status.PLANNING})
    if state.failures_in_row >= state.options.replan_failures or (decision is not None and decision.route == "replan"):
        update = {"status": Status.PLANNING, "failures_in_row": 0, "replans": state.replans + 1}
        return settle(state).model_copy(update=update)
    if not plan.approved:
        return state.model_copy(update={"status": Status.AWAITING_APPROVAL})
    return next_todo(state)


def next_todo(state: State) -> State:
    """Code the todo in work, or the open one that promises most; with none left the list is done."""
    if doing(state) is None:
        state = without_moot(state)
        todo = next_open(state)
        if todo is None:
            return finish(state, StopCause.TODOS_DONE)
        state = change_todo(state, todo.id, status="doing")
    todo = doing(state)
    if todo is not None and state.options.search.width > 1:
        return opened(state, todo.id)
    return state.model_copy(update={"status": Status.CODING})


def _routed(state: State, decision: Decision) -> State:
    """Settle the todo unless it may be tried again."""
    todo, candidate = doing(state), find(state, decision.candidate)
    if todo is None or (candidate is not None and candidate.todo != todo.id):
        return state  # a person's candidate came in between: the todo in work is untouched
    again = decision.route in ("retry", "optimise") and state.tries.get(todo.id, 0) < MAX_TRIES
    if decision.route == "retry" and candidate is not None and candidate.verified:
        again = False  # nothing to repair
    return state if again else settle(state)


def settle(state: State) -> State:
    """Close the todo in work with what it came to."""
    todo = doing(state)
    if todo is None:
        return state
    tried = [c for c in state.candidates if c.todo == todo.id and c.author == "engineer"]
    gained = [c for c in tried if c.verified and (c.id == state.best or significant(state, c, ground(state, c.parent)))]
    if gained:
        return change_todo(state, todo.id, status="done", note=gained[-1].note)
    verified = [c for c in tried if c.verified]
    shown = verified or tried
    note = shown[-1].note if shown else todo.note or "Not tried to its end."
    return change_todo(state, todo.id, status="no-gain" if verified else "failed", note=note)


def take_hand_made(state: State) -> State | None:
    """Put the first waiting candidate of a person to work, None when there is none."""
    if not state.controls:
        return None
    control, state = state.controls[0], state.model_copy(update={"controls": state.controls[1:]})
    files = {path: BlobRef.model_validate(ref) for path, ref in control.data["files"].items()}
    parent = find(state, control.data.get("parent"))
    return add_candidate(
        state,
        parent=parent.id if parent else None,
        todo=None,
        title=str(control.data.get("title") or "Written by hand")[:200],
        author="person",
        skill="feedback" if parent else "from_scratch",
        files=files,
        fingerprint=str(control.data.get("fingerprint") or "")[:64],
        sha256=str(control.data.get("sha256") or digest({path: ref.sha256 for path, ref in files.items()})),
    )


def fail(state: State, error: str) -> State:
    """The run cannot go on, and not because of the program."""
    update = {"status": Status.FAILED, "stop_cause": StopCause.FAILED, "error": error, "controls": (), "round": None}
    return state.model_copy(update=update)


def finish(state: State, cause: StopCause) -> State:
    """No more attempts: settle what was in work, then confirm the best under the full protocol."""
    current = find(state, state.current)
    if current is not None and current.status != "done":
        note = current.note or "Left where it was: the budget was spent."
        state = change_candidate(state, current.id, status="done", note=note)
    return end(settle(state).model_copy(update={"stop_cause": cause, "round": None}))


def end(state: State) -> State:
    """Confirm the candidate that stands first now, unless that is done; otherwise the run is over, after the baselines' timing.

    The first confirmation is always made, a further one only while the budget lasts. What was not confirmed is no result.
    """
    first = find(state, best_left(state))
    if first is not None and first.confirmed is None:
        others = sum(c.confirmed is not None or _taken_back(state, c.id) for c in state.candidates)
        if others and spent(state, whole=True):
            state = change_candidate(state, first.id, note="Not confirmed: the budget was spent.")
            first = None
        else:
            full = first.check is not None and first.check.protocol == state.options.protocol.id
            update = {"best": first.id, "current": first.id, "status": Status.TIMING if full else Status.CHECKING}
            state = change_candidate(state, first.id, status="timing" if full else "checking")
            return state.model_copy(update=update)
    state = state.model_copy(update={"best": first.id if first else None, "current": None})
    if first is None and state.reference_timing is None:
        # What a user should take in place of a program of ours is a measurement too: every baseline is timed, once.
        return state.model_copy(update={"status": Status.TIMING})
    if state.stop_cause in _SOFT and not spent(state):
        hand_made = take_hand_made(state)
        if hand_made is not None:
            return hand_made.model_copy(update={"stop_cause": None})
    return state.model_copy(update={"status": Status.FINISHED, "controls": (), "profiles_asked": ()})


def reopened(state: State, candidate: Candidate) -> State | None:
    """The loop taken up again after the full check found its best wrong, so that it can be repaired; None where it cannot.

    Each candidate is found wrong once at most, so this cannot go on for ever.
    """
    todo = next((t for t in state.plan.todos if t.id == candidate.todo), None) if state.plan else None
    options, best = state.options, best_left(state)
    able = todo is not None and candidate.author == "engineer" and state.stop_cause in _SOFT
    patient = state.usage.attempts < options.budget.attempts and state.gainless_in_row < options.patience
    state = state.model_copy(update={"best": best, "failures_in_row": state.failures_in_row + 1})
    if todo is None or not able or not patient or spent(state) is not None:
        return None
    state = change_todo(state, todo.id, status="doing", measured=None, measured_low=None, measured_high=None)
    return state.model_copy(update={"stop_cause": None, "status": Status.DECIDING})


def _taken_back(state: State, candidate_id: str) -> bool:
    candidate = state.candidate(candidate_id)
    return candidate.timing is not None and not candidate.verified
