"""The end: what the full protocol said of the best."""

from __future__ import annotations

from agents.loop.attempt import again, current
from agents.loop.edit import change_candidate
from agents.loop.notes import confirmed_sentence, told_by_confirmation
from agents.loop.route import end
from agents.loop.rules import MAX_RECONFIRMS, beats_eager, hidden_by_noise
from agents.state import State, Timed
from gpu_runner.contracts import Verdict


def confirmed(state: State, outcome: Timed) -> State:
    """The best with its confirmed timing; the next one's turn where that did not hold."""
    candidate, report = current(state), outcome.report
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
    arms = tuple(arm for arm in report.arms if arm.arm != "candidate")
    baselines = report.model_copy(
        update={"arms": arms, "over_eager": None, "over_compile": None, "over_baseline": None, "verdict": None, "sentence": ""}
    )
    return end(state.model_copy(update={"reference_timing": baselines}))
