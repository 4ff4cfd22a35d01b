"""How an outcome changes the state, and where the loop goes from there."""

from __future__ import annotations

from agents.loop.due import due
from agents.loop.edit import add_candidate, change_candidate, change_todo
from agents.loop.notes import confirmed_sentence, timed_sentence, told_by_confirmation
from agents.loop.profiles import worth_profiling
from agents.loop.route import after_attempt, end, fail, failure_sentence, finish, reopened
from agents.loop.rules import (
    MAX_RECONFIRMS,
    MAX_RETIMES,
    MAX_RETRIES,
    MAX_TODOS,
    MAX_TRIES,
    MAX_UNUSABLE_PLANS,
    beats_eager,
    counts_time,
    doing,
    find,
    gain_over,
    ground,
    hidden_by_noise,
    significant,
    spent,
)
from agents.loop.steering import steer
from agents.state import (
    Analysed,
    AnalysisSummary,
    Broken,
    Built,
    Candidate,
    Checked,
    Coded,
    Decided,
    Decision,
    Outcome,
    Plan,
    Planned,
    Profiled,
    State,
    Status,
    Steered,
    StepKind,
    StopCause,
    Timed,
    Unusable,
    Usage,
)
from gpu_runner.contracts import BlobRef, Label, TimingReport, Verdict

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
    """The state after `outcome`. An outcome that answers no step that is due (late, twice, of another kind) changes nothing.

    A person's `Steered` is taken at any moment and does not count as a step. While the run is paused, the outcome of the step
    that was in flight is still taken, so that no work is lost; the run stays paused.
    """
    if state.status.ended:
        return state
    if isinstance(outcome, Steered):
        return _steered(_clock(state, outcome.at), outcome)
    working = state.resume if state.status is Status.PAUSED else state.status
    if outcome.step != state.step or working is None or working is Status.AWAITING_APPROVAL:
        return state
    step = due(state, working)
    if not isinstance(outcome, Broken) and step.kind not in _ANSWERS[type(outcome)]:
        return state

    # A step of the hands takes as long as they worked on it; what it waited for a runner is nobody's fault and not charged.
    state = _account(_clock(state, outcome.at, outcome.seconds if step.by_hands else None), outcome, step.by_hands)
    paused = state.status is Status.PAUSED
    state = state.model_copy(update={"status": working, "step": state.step + 1})
    state = _broken(state, step.kind, outcome.reason) if isinstance(outcome, Broken) else _worked(state, step.kind, outcome)
    if not state.status.ended and state.stop_cause is None and (cause := spent(state)) is not None:
        state = finish(state, cause)
    if paused and not state.status.ended:
        state = state.model_copy(update={"resume": state.status, "status": Status.PAUSED})
    elif paused:
        state = state.model_copy(update={"resume": None, "paused_at": None})
    return state


def _steered(state: State, outcome: Steered) -> State:
    after = steer(state, outcome.control, outcome.at)
    resumed = state.status is Status.PAUSED and after.status is not Status.PAUSED and not after.status.ended
    if resumed and after.stop_cause is None and (cause := spent(after)) is not None:
        # another step is due than the one that may be in flight since before the pause: a new index keeps them apart
        after = finish(after, cause).model_copy(update={"step": after.step + 1})
    return after


def _clock(state: State, at: float, most: float | None = None) -> State:
    """The run's clock at `at`; `most`: seconds that may be charged at most."""
    now = state.now if state.now is not None else at
    passed = max(0.0, at - now) if counts_time(state) and state.started_at is not None else 0.0
    passed = passed if most is None else min(passed, max(0.0, most))
    usage = state.usage.model_copy(update={"wall_s": state.usage.wall_s + passed})
    return state.model_copy(update={"now": max(now, at), "usage": usage})


def _account(state: State, outcome: Outcome, by_hands: bool) -> State:
    spent_now: Usage = getattr(outcome, "usage", Usage())
    usage = state.usage
    update: dict[str, object] = {
        "tokens_in": usage.tokens_in + max(0, spent_now.tokens_in),
        "tokens_out": usage.tokens_out + max(0, spent_now.tokens_out),
        "unpriced": usage.unpriced + max(0, spent_now.unpriced),
        "money": usage.money + max(0.0, spent_now.money),
        "device_s": usage.device_s + (max(0.0, outcome.seconds) if by_hands else 0.0),
    }
    if state.started_at is None:  # the shell did not say when it began: the first outcome does
        update["wall_s"] = max(0.0, outcome.seconds)
        state = state.model_copy(update={"started_at": outcome.at - max(0.0, outcome.seconds)})
    return state.model_copy(update={"usage": usage.model_copy(update=update)})


def _broken(state: State, kind: StepKind, reason: str) -> State:
    tries = state.retries.get(kind, 0) + 1
    if tries <= MAX_RETRIES:
        return state.model_copy(update={"retries": state.retries | {kind: tries}})
    if kind == "profile":  # a run without a profile is still a run
        return _profiled(state.model_copy(update={"retries": state.retries | {kind: 0}}), None)
    return fail(state, f"The {kind} step could not be done, {tries} times in a row. {reason}".strip())


def _worked(state: State, kind: StepKind, outcome: Outcome) -> State:
    state = state.model_copy(update={"retries": {k: n for k, n in state.retries.items() if k != kind}})
    match outcome:
        case Analysed():
            return _analysed(state, outcome.analysis)
        case Planned():
            return _planned(state, outcome)
        case Coded():
            return _coded(state, outcome)
        case Built():
            return _built(state, outcome)
        case Checked():
            return _checked(state, outcome)
        case Timed() if kind == "confirm":
            return _confirmed(state, outcome)
        case Timed():
            return _timed(state, outcome.report)
        case Profiled():
            return _profiled(state, outcome)
        case Decided():
            return after_attempt(state, outcome.decision)
        case Unusable() if outcome.spent is not None:
            return finish(state.model_copy(update={"error": outcome.reason}), outcome.spent)
        case Unusable() if kind == "plan":
            return _no_plan(state, outcome.reason)
        case Unusable() if kind == "code":
            return _no_code(state, outcome.reason)
        case Unusable():
            sentence = f"The Verifier's answer could not be used ({outcome.reason}); the loop's own rules decide."
            return after_attempt(state, _own_decision(state, sentence))
    return state


# ---- before the first candidate


def _analysed(state: State, analysis: AnalysisSummary) -> State:
    state = state.model_copy(update={"analysis": analysis})
    reason = _refusal(analysis)
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


def _planned(state: State, outcome: Planned) -> State:
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


def _no_plan(state: State, reason: str) -> State:
    state = _counted(state, "plan")
    if state.tries["plan"] >= MAX_UNUSABLE_PLANS or state.usage.attempts >= state.options.budget.attempts:
        sentence = f"The Planner's answer could not be used: {reason}"
        if state.plan is None and not state.candidates:
            return fail(state, sentence)
        return finish(state.model_copy(update={"error": sentence}), StopCause.TODOS_DONE)
    return state.model_copy(update={"error": f"The Planner's answer could not be used: {reason}"})


# ---- one candidate


def _counted(state: State, key: str) -> State:
    """One more attempt spent, and one more on `key`."""
    usage = state.usage.model_copy(update={"attempts": state.usage.attempts + 1})
    return state.model_copy(update={"usage": usage, "tries": state.tries | {key: state.tries.get(key, 0) + 1}})


def _no_code(state: State, reason: str) -> State:
    todo = doing(state)
    state = state.model_copy(update={"failures_in_row": state.failures_in_row + 1})
    state = _counted(state, todo.id if todo else "plan")
    if todo:
        state = change_todo(state, todo.id, note=f"The Coder's answer could not be used: {reason}")
        if state.tries[todo.id] >= MAX_TRIES:
            return after_attempt(state, Decision(candidate=None, route="advance"))
    return after_attempt(state, None)


def _coded(state: State, outcome: Coded) -> State:
    twin = next((c for c in state.candidates if c.sha256 == outcome.sha256), None)
    if twin:
        return _no_code(state, f"it is the same program as {twin.id}, letter by letter.")
    todo = doing(state)
    state = _counted(state, todo.id if todo else "plan")
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
        note=outcome.note,
    )


def _current(state: State) -> Candidate:
    return state.candidate(state.current or "")


def _failed(state: State, candidate: Candidate, verdict: Verdict, note: str, **more: object) -> State:
    """The candidate is no good: the Verifier says why, and the row of failures grows by one."""
    state = change_candidate(state, candidate.id, verdict=verdict, status="done", note=note, **more)
    if candidate.author == "engineer":
        state = state.model_copy(update={"failures_in_row": state.failures_in_row + 1})
    return state.model_copy(update={"status": Status.DECIDING})


def _logged(state: State, candidate: Candidate, name: str, log: BlobRef | None) -> State:
    return change_candidate(state, candidate.id, logs=candidate.logs | {name: log}) if log else state


def _built(state: State, outcome: Built) -> State:
    candidate, report = _current(state), outcome.report
    state = _logged(state, candidate, "build", outcome.log)
    if not report.ok:
        note = report.diagnostics[0] if report.diagnostics else "The kernels did not build."
        return _failed(state, candidate, report.verdict or Verdict.BUILD_FAILED, note, build=report)
    state = change_candidate(state, candidate.id, build=report, status="checking")
    return state.model_copy(update={"status": Status.CHECKING})


def _checked(state: State, outcome: Checked) -> State:
    candidate, report = _current(state), outcome.report
    state = _logged(state, candidate, "check", outcome.log)
    facts: dict[str, object] = {"check": report, "hack": report.hack, "labels": report.labels}
    if state.stop_cause is not None:  # the full protocol, over the best
        facts["check"] = report.model_copy(update={"protocol": state.options.protocol.id})
        if report.verdict is not Verdict.VERIFIED:
            note = f"The full protocol took it back: {failure_sentence(report)}"
            state = change_candidate(state, candidate.id, verdict=report.verdict, status="done", note=note, **facts)
            return reopened(state, _current(state)) or end(state)
        state = change_candidate(state, candidate.id, status="timing", retimed=0, **facts)
        return state.model_copy(update={"status": Status.TIMING})
    if report.verdict is not Verdict.VERIFIED:
        return _failed(state, candidate, report.verdict, failure_sentence(report), **facts)
    state = change_candidate(state, candidate.id, verdict=Verdict.VERIFIED, status="timing", **facts)
    return state.model_copy(update={"status": Status.TIMING})


def _timed(state: State, report: TimingReport) -> State:
    candidate = _current(state)
    if report.verdict not in (None, Verdict.VERIFIED):
        return _failed(state, candidate, report.verdict, failure_sentence(report), timing=report, hack=report.hack)
    if hidden_by_noise(report, state.options.protocol.faster_ratio) and candidate.retimed < MAX_RETIMES:
        return _again(state, candidate, timing=report)
    state = change_candidate(state, candidate.id, timing=report, status="profiling")
    candidate = _current(state)
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
    if worth_profiling(state, candidate, new_best):
        return state.model_copy(update={"status": Status.PROFILING})
    state = change_candidate(state, candidate.id, status="done")
    return state.model_copy(update={"status": Status.DECIDING})


def _again(state: State, candidate: Candidate, **update: object) -> State:
    """The same timing once more: the status stays, the step is a new one."""
    update |= {"retimed": candidate.retimed + 1, "note": "Timed again: noise hid what it seems to gain."}
    return change_candidate(state, candidate.id, **update)


def _profiled(state: State, outcome: Profiled | None) -> State:
    if state.current is None:
        if outcome:
            state = state.model_copy(update={"reference_profile": outcome.blob, "reference_diagnosis": outcome.diagnosis})
        return after_attempt(state, None)
    asked = _current(state).status == "done"  # by a person, after its attempt: there is nothing to decide
    update: dict[str, object] = {"status": "done"}
    if outcome:
        update |= {"profile": outcome.blob, "finding": outcome.finding, "diagnosis": outcome.diagnosis}
    state = change_candidate(state, state.current, **update)
    return after_attempt(state, None) if asked else state.model_copy(update={"status": Status.DECIDING})


def _own_decision(state: State, sentence: str) -> Decision:
    candidate = _current(state)
    return Decision(candidate=candidate.id, route="advance" if candidate.verified else "retry", sentence=sentence)


# ---- the end


def _confirmed(state: State, outcome: Timed) -> State:
    candidate, report = _current(state), outcome.report
    update: dict[str, object] = {"confirmed": report, "status": "done"}
    check = outcome.check or candidate.check
    if outcome.check:
        update |= {"check": outcome.check, "verdict": outcome.check.verdict, "hack": outcome.check.hack}
    if report.verdict not in (None, Verdict.VERIFIED):
        update["verdict"] = report.verdict
    update["labels"] = tuple(dict.fromkeys((*(check.labels if check else ()), *report.labels)))
    least = state.options.protocol.faster_ratio
    if hidden_by_noise(report, least) and candidate.retimed < MAX_RECONFIRMS:
        return _again(state, candidate, **update | {"confirmed": None, "status": "timing"})
    stands = beats_eager(report, least) and update.get("verdict", candidate.verdict) is Verdict.VERIFIED
    state = change_candidate(state, candidate.id, **update, note=confirmed_sentence(report, stands))
    state = told_by_confirmation(state, _current(state), stands)
    arms = tuple(arm for arm in report.arms if arm.arm != "candidate")
    baselines = report.model_copy(
        update={"arms": arms, "over_eager": None, "over_compile": None, "over_baseline": None, "verdict": None, "sentence": ""}
    )
    return end(state.model_copy(update={"reference_timing": baselines}))
