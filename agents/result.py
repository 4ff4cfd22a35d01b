"""What a run came to: its verdict, a sentence, and the result line that the headless commands print and the page shows."""

from __future__ import annotations

from typing import Any

from agents.loop.rules import find
from agents.state import Candidate, Options, State, Status, StopCause
from gpu_runner.contracts import BlobRef, DeviceInfo, Label
from gpu_runner.line import offered, result_line

STOP_SENTENCES: dict[StopCause, str] = {
    StopCause.TARGET_REACHED: "The speedup that was asked for is reached.",
    StopCause.TODOS_DONE: "Every item of the plan was tried.",
    StopCause.BUDGET_ATTEMPTS: "The budget of attempts is spent.",
    StopCause.BUDGET_WALL: "The budget of time is spent.",
    StopCause.BUDGET_TOKENS: "The budget of tokens is spent.",
    StopCause.BUDGET_MONEY: "The budget of money is spent.",
    StopCause.BUDGET_DEVICE: "The budget of device seconds is spent.",
    StopCause.NO_GAIN: "Nothing further promised a significant gain.",
    StopCause.AT_ROOFLINE: "It is at the roofline: what it must move and compute takes as long on this device.",
    StopCause.CANCELLED: "The run was cancelled.",
    StopCause.REFUSED: "The program cannot be optimized as it is.",
    StopCause.FAILED: "The run could not go on.",
}


def verdict_of(state: State) -> str:
    """verified | no-gain | refused | failed | cancelled, of an ended run; "running" before."""
    if state.status is Status.CANCELLED:
        return "cancelled"
    if state.status is Status.FAILED:
        return "failed"
    if state.status is not Status.FINISHED:
        return "running"
    if state.stop_cause is StopCause.REFUSED:
        return "refused"
    return "verified" if _winner(state) else "no-gain"


def _winner(state: State) -> Candidate | None:
    """The best, once the full protocol has confirmed it."""
    best = find(state, state.best)
    return best if best and best.verified and best.confirmed and state.status is Status.FINISHED else None


def sentence_of(state: State) -> str:
    """How the run ended, said to a person."""
    why = STOP_SENTENCES[state.stop_cause] if state.stop_cause else ""
    best, verdict = _winner(state), verdict_of(state)
    if verdict in ("refused", "failed"):
        return f"{why} {state.error}".strip()
    if verdict == "cancelled":
        return why
    if offer := offered(best.confirmed if best else state.reference_timing):
        mode, ratio = offer
        than, how = "it" if best else "eager", "" if mode == "default" else f', mode="{mode}"'
        faster = f"torch.compile is faster than {than} here ({ratio:.2f}× as fast as eager)"
        why = f"{why} {faster}, so take that: torch.compile(model{how}).".strip()
    if best is None or best.confirmed is None or best.confirmed.over_eager is None:
        tried = len(state.candidates)
        if not tried:
            return f"No program was tried. {why}".strip()
        programs = "1 program was" if tried == 1 else f"{tried} programs were"
        return f"Nothing was significantly faster than eager; {programs} tried. {_unsteady(state)}{why}".strip()
    over, report = best.confirmed.over_eager, best.confirmed
    sentence = f"{best.id} is verified and {over.value:.2f}× as fast as eager ({over.low:.2f}–{over.high:.2f})"
    if report.over_compile is not None:
        sentence += f", {report.over_compile.value:.2f}× as fast as the best torch.compile"
    return f"{sentence}. {why}".strip()


def _unsteady(state: State) -> str:
    """Where right programs could not be timed steadily: so, and what to do. Ends in a space, or is empty."""
    timings = [(c.id, c.confirmed or c.timing) for c in state.candidates if c.verified]
    names = [name for name, report in timings if report and Label.UNSTABLE_TIMING in report.labels]
    if not names:
        return ""
    listed = ", ".join(names)
    return f"The timing of {listed} was too unsteady for a claim: run it again when less else runs on the machine. "


def line_of(state: State, file: str = "", wall_s: float | None = None) -> dict[str, Any]:
    """The result line. Times in milliseconds and seconds; what was not measured is None.

    `file`: how the caller names the program (otherwise the run's name); `wall_s`: the caller's own clock (otherwise the run's).
    """
    best, verdict = _winner(state), verdict_of(state)
    report = best.confirmed if best else None
    error = state.error if verdict in ("refused", "failed") else ""
    labels = best.labels if best else state.analysis.labels if state.analysis else ()
    if verdict == "refused" and state.analysis and state.analysis.nulls:
        labels = (*labels, Label.DEGENERATE)
    line = result_line(
        file=file or state.name,
        verdict=verdict,
        protocol=state.options.protocol.id,
        mode=state.options.mode,
        precision=state.options.precision,
        check=best.check if best else None,
        timing=report or state.reference_timing,
        labels=labels,
        device=device_of(state, best),
        build_s=best.build.seconds if best and best.build else None,
        wall_s=state.usage.wall_s if wall_s is None else wall_s,
        error=STOP_SENTENCES[state.stop_cause or StopCause.CANCELLED] if verdict == "cancelled" else error,
    )
    if line["eager_ms"] is None:
        line["eager_ms"] = _eager_ms(state)
    return line


def _eager_ms(state: State) -> float | None:
    """Eager's time where nothing was confirmed: from the newest timing of the loop, else from the analysis."""
    for candidate in reversed(state.candidates):
        for arm in candidate.timing.arms if candidate.timing else ():
            if arm.arm == "eager":
                return arm.median_ms
    return state.analysis.eager_ms if state.analysis else None


def device_of(state: State, best: Candidate | None) -> DeviceInfo | None:
    """Where it was measured, from the newest report that says so."""
    for candidate in (*((best,) if best else ()), *reversed(state.candidates)):
        for report in (candidate.confirmed, candidate.timing, candidate.check, candidate.build):
            if report is not None and isinstance(report.device, DeviceInfo):
                return report.device
    return None


def refused_line(file: str, options: Options, error: str, wall_s: float, verdict: str = "refused") -> dict[str, Any]:
    """The line of a program that was never begun, with the reason."""
    status = Status.FINISHED if verdict == "refused" else Status.FAILED
    cause = StopCause.REFUSED if verdict == "refused" else StopCause.FAILED
    nothing = BlobRef(sha256="", size=0)
    state = State(run="", name=file, source=nothing, options=options, status=status, stop_cause=cause, error=error)
    return line_of(state, file, wall_s)
