"""One candidate from its birth to its decision. Each function takes a state whose `current` is the candidate it is about."""

from __future__ import annotations

from agents.loop.clock import attempted, counted
from agents.loop.edit import add_candidate, change_candidate, change_todo
from agents.loop.memory import remembered
from agents.loop.notes import timed_sentence
from agents.loop.profiles import worth_profiling
from agents.loop.route import after_attempt, end, failure_sentence, reopened
from agents.loop.rules import (
    MAX_RETIMES,
    MAX_TRIES,
    beats_eager,
    doing,
    find,
    gain_over,
    ground,
    hidden_by_noise,
    significant,
)
from agents.state import Built, Candidate, Checked, Coded, Decision, Profiled, State, Status
from gpu_runner.contracts import BlobRef, TimingReport, Verdict


def no_code(state: State, reason: str) -> State:
    """The Coder's answer became no candidate: an attempt is spent, and what was wrong is told to the next one."""
    todo = doing(state)
    state = rejected(state.model_copy(update={"failures_in_row": state.failures_in_row + 1}), reason)
    state = counted(state, todo.id if todo else "plan")
    if todo and state.tries[todo.id] >= MAX_TRIES:
        return after_attempt(state, Decision(candidate=None, route="advance"))
    return after_attempt(state, None)


def rejected(state: State, reason: str) -> State:
    """What was wrong with the Coder's answer, kept with its item and for later questions."""
    todo = doing(state)
    state = remembered(state, todo.title if todo else "", reason)
    return change_todo(state, todo.id, note=f"The Coder's answer could not be used: {reason}") if todo else state


def repeated(state: State, outcome: Coded) -> str:
    """Why the program is not worth a verification: it was there before. Empty for a new one."""
    for known in state.candidates:
        if known.sha256 == outcome.sha256:
            return f"it is the same program as {known.id}, letter by letter."
        if known.fingerprint and known.fingerprint == outcome.fingerprint:
            return f"it is the same program as {known.id} but for names, comments and spaces."
    return ""


def coded(state: State, outcome: Coded) -> State:
    """A candidate is born, or the answer is one that was there before."""
    if why := repeated(state, outcome):
        return no_code(state, why)
    todo = doing(state)
    return born(counted(state, todo.id if todo else "plan"), outcome)


def born_in_round(state: State, outcome: Coded, number: int) -> State:
    """A candidate is born beside others; the round counts as one try of its item."""
    state = born(attempted(state), outcome)
    return change_candidate(state, state.current or "", round=number)


def born(state: State, outcome: Coded) -> State:
    """The new candidate is the current one, and its build is due."""
    todo = doing(state)
    if outcome.parent is not None and outcome.parent == state.branch_from:
        state = state.model_copy(update={"branch_from": None})
    return add_candidate(
        state,
        parent=outcome.parent if find(state, outcome.parent) else None,
        todo=todo.id if todo else None,
        title=outcome.title,
        skill=outcome.skill,
        files=outcome.files,
        sha256=outcome.sha256,
        fingerprint=outcome.fingerprint,
        note=outcome.note,
    )


def current(state: State) -> Candidate:
    """The candidate under work."""
    return state.candidate(state.current or "")


def _failed(state: State, candidate: Candidate, verdict: Verdict, note: str, **more: object) -> State:
    """The candidate is no good: the Verifier says why, and the row of failures grows by one."""
    state = change_candidate(state, candidate.id, verdict=verdict, status="done", note=note, **more)
    if candidate.author == "engineer":
        state = state.model_copy(update={"failures_in_row": state.failures_in_row + 1})
    return state.model_copy(update={"status": Status.DECIDING})


def _logged(state: State, candidate: Candidate, name: str, log: BlobRef | None) -> State:
    return change_candidate(state, candidate.id, logs=candidate.logs | {name: log}) if log else state


def built(state: State, outcome: Built) -> State:
    """Checked next, when it built."""
    candidate, report = current(state), outcome.report
    state = _logged(state, candidate, "build", outcome.log)
    if not report.ok:
        note = report.diagnostics[0] if report.diagnostics else "The kernels did not build."
        return _failed(state, candidate, report.verdict or Verdict.BUILD_FAILED, note, build=report)
    state = change_candidate(state, candidate.id, build=report, status="checking")
    return state.model_copy(update={"status": Status.CHECKING})


def checked(state: State, outcome: Checked) -> State:
    """Timed next, when it is right."""
    candidate, report = current(state), outcome.report
    state = _logged(state, candidate, "check", outcome.log)
    facts: dict[str, object] = {"check": report, "hack": report.hack, "labels": report.labels}
    if state.stop_cause is not None:  # the full protocol, over the best
        facts["check"] = report.model_copy(update={"protocol": state.options.protocol.id})
        if report.verdict is not Verdict.VERIFIED:
            note = f"The full protocol took it back: {failure_sentence(report)}"
            state = change_candidate(state, candidate.id, verdict=report.verdict, status="done", note=note, **facts)
            return reopened(state, current(state)) or end(state)
        state = change_candidate(state, candidate.id, status="timing", retimed=0, **facts)
        return state.model_copy(update={"status": Status.TIMING})
    if report.verdict is not Verdict.VERIFIED:
        return _failed(state, candidate, report.verdict, failure_sentence(report), **facts)
    state = change_candidate(state, candidate.id, verdict=Verdict.VERIFIED, status="timing", **facts)
    return state.model_copy(update={"status": Status.TIMING})


def timed(state: State, report: TimingReport) -> State:
    """Profiled next where that is worth it, else decided on."""
    candidate = current(state)
    if report.verdict not in (None, Verdict.VERIFIED):
        return _failed(state, candidate, report.verdict, failure_sentence(report), timing=report, hack=report.hack)
    if hidden_by_noise(report, state.options.protocol.faster_ratio) and candidate.retimed < MAX_RETIMES:
        return again(state, candidate, timing=report)
    state = change_candidate(state, candidate.id, timing=report, status="profiling")
    candidate = current(state)
    best, base = find(state, state.best), ground(state, candidate.parent)
    gain = gain_over(candidate, base)
    gained = significant(state, candidate, base)
    better = beats_eager(candidate.timing, state.options.protocol.faster_ratio)
    new_best = better and significant(state, candidate, best)
    state = change_candidate(state, candidate.id, note=timed_sentence(state, candidate, base, new_best))
    update: dict[str, object] = {"best": candidate.id if new_best else state.best}
    if candidate.author == "engineer":
        update |= {"failures_in_row": 0, "gainless_in_row": 0 if gained or new_best else state.gainless_in_row + 1}
    state = state.model_copy(update=update)
    todo = doing(state)
    if todo and todo.id == candidate.todo and gain and (todo.measured is None or gain.value > todo.measured):
        state = change_todo(state, todo.id, measured=gain.value, measured_low=gain.low, measured_high=gain.high)
        if gained:
            state = state.model_copy(update={"tries": state.tries | {todo.id: 0}})
    return judged_next(state, worth_profiling(state, candidate, new_best))


def judged_next(state: State, profile: bool) -> State:
    """The current candidate is profiled, or decided on without."""
    if profile:
        state = change_candidate(state, state.current or "", status="profiling")
        return state.model_copy(update={"status": Status.PROFILING})
    state = change_candidate(state, state.current or "", status="done")
    return state.model_copy(update={"status": Status.DECIDING})


def again(state: State, candidate: Candidate, **update: object) -> State:
    """The same timing once more: the status stays, the step is a new one."""
    update |= {"retimed": candidate.retimed + 1, "note": "Timed again: noise hid what it seems to gain."}
    return change_candidate(state, candidate.id, **update)


def profiled(state: State, outcome: Profiled | None) -> State:
    """The profile of the current candidate or, without one, of the reference; None: it could not be made."""
    if state.current is None:
        if outcome:
            state = state.model_copy(update={"reference_profile": outcome.blob, "reference_diagnosis": outcome.diagnosis})
        return after_attempt(state, None)
    asked = current(state).status == "done"  # by a person, after its attempt: there is nothing to decide
    update: dict[str, object] = {"status": "done"}
    if outcome:
        update |= {"profile": outcome.blob, "finding": outcome.finding, "diagnosis": outcome.diagnosis}
    state = change_candidate(state, state.current, **update)
    return after_attempt(state, None) if asked else state.model_copy(update={"status": Status.DECIDING})


def own_decision(state: State, sentence: str) -> Decision:
    """What the rules decide where the Verifier's answer could not be used."""
    candidate = current(state)
    return Decision(candidate=candidate.id, route="advance" if candidate.verified else "retry", sentence=sentence)
