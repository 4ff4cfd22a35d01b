"""The end: what the full protocol said of the best, or where there is none, of the baselines alone."""

from __future__ import annotations

from agents.loop.attempt import again, current
from agents.loop.edit import change_candidate
from agents.loop.notes import confirmed_sentence, told_by_confirmation
from agents.loop.route import end
from agents.loop.rules import MAX_RECONFIRMS, beats_eager, hidden_by_noise
from agents.state import State, Timed
from gpu_runner.contracts import TimingReport, Verdict


def confirmed(state: State, outcome: Timed) -> State:
    """The best with its confirmed timing; the next one's turn where that did not hold. Without a best, the baselines."""
    report = outcome.report
    if state.current is None:
        return baselines(state, report)
    candidate = current(state)
    update: dict[str, object] = {"confirmed": report, "status": "done"}
    check = outcome.check or candidate.check
    if outcome.check:
        update |= {"check": outcome.check, "verdict": outcome.check.verdict, "hack": outcome.check.hack}
    if report.verdict not in (None, Verdict.VERIFIED):
        update["verdict"] = report.verdict
    update["labels"] = tuple(dict.fromkeys((*(check.labels if check else ()), *report.labels)))
    least = state.options.protocol.faster_ratio
    if hidden_by_noise(report, least) and candidate.retimed < MAX_RECONFIRMS:
        return again(state, candidate, **update | {"confirmed": None, "status": "timing"})
    stands = beats_eager(report, least) and update.get("verdict", candidate.verdict) is Verdict.VERIFIED
    state = change_candidate(state, candidate.id, **update, note=confirmed_sentence(report, stands))
    state = told_by_confirmation(state, current(state), stands)
    # A candidate that ended before it was timed took the baselines' times with it.
    return baselines(state, report) if report.arms else end(state)


def baselines(state: State, report: TimingReport) -> State:
    """What the report says of the reference, eager and compiled, stands beside the candidates from here on."""
    arms = tuple(arm for arm in report.arms if arm.arm != "candidate")
    nothing = {"over_eager": None, "over_compile": None, "over_baseline": None, "verdict": None}
    kept = report.model_copy(update=nothing | {"arms": arms, "sentence": "" if arms else report.sentence})
    return end(state.model_copy(update={"reference_timing": kept}))
