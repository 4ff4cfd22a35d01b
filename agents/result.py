"""What a run came to: its verdict, a sentence, and the result line that the headless commands print and the page shows."""

from __future__ import annotations

from typing import Any

from agents.loop.rules import find
from agents.state import Candidate, Options, State, Status, StopCause
from gpu_runner.contracts import BlobRef, DeviceInfo, Interval, Speed, TimingReport

COMPILE_ARMS = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")

STOP_SENTENCES: dict[StopCause, str] = {
    StopCause.TARGET_REACHED: "The speedup that was asked for is reached.",
    StopCause.TODOS_DONE: "Every item of the plan was tried.",
    StopCause.BUDGET_ATTEMPTS: "The budget of attempts is spent.",
    StopCause.BUDGET_WALL: "The budget of time is spent.",
    StopCause.BUDGET_TOKENS: "The budget of tokens is spent.",
    StopCause.BUDGET_MONEY: "The budget of money is spent.",
    StopCause.BUDGET_DEVICE: "The budget of device seconds is spent.",
    StopCause.NO_GAIN: "Nothing further promised a significant gain.",
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
    if best is None or best.confirmed is None or best.confirmed.over_eager is None:
        tried = len(state.candidates)
        programs = "1 program was" if tried == 1 else f"{tried} programs were"
        return f"Nothing was significantly faster than eager; {programs} tried. {why}".strip()
    over, report = best.confirmed.over_eager, best.confirmed
    sentence = f"{best.id} is verified and {over.value:.2f}× as fast as eager ({over.low:.2f}–{over.high:.2f})"
    if report.over_compile is not None:
        sentence += f", {report.over_compile.value:.2f}× as fast as the best torch.compile"
    return f"{sentence}. {why}".strip()


def line_of(state: State, file: str = "", wall_s: float | None = None) -> dict[str, Any]:
    """The result line. Times in milliseconds and seconds; what was not measured is None.

    `file`: how the caller names the program (otherwise the run's name); `wall_s`: the caller's own clock (otherwise the run's).
    """
    best = _winner(state)
    report = best.confirmed if best else None
    verdict = verdict_of(state)
    error = state.error if verdict in ("refused", "failed") else ""
    if verdict == "cancelled":
        error = STOP_SENTENCES[StopCause.CANCELLED]
    return {
        "file": file or state.name,
        "verdict": verdict,
        "speed": str(report.speed if report else Speed.NOT_CLAIMED),
        "baseline": report.baseline if report else None,
        "eager_ms": _eager_ms(state, report),
        "compile_ms": _medians(report or state.reference_timing, COMPILE_ARMS),
        "baseline_errors": dict((report or state.reference_timing or TimingReport()).errors),
        "candidate_ms": _medians(report, ("candidate",)).get("candidate"),
        **_ratios(report.over_eager if report else None, "speedup_vs_eager", "ci_low", "ci_high"),
        **_ratios(report.over_compile if report else None, "speedup_vs_compile", "ci_compile_low", "ci_compile_high"),
        "operator_coverage": best.check.coverage if best and best.check else None,
        "labels": [str(label) for label in (best.labels if best else state.analysis.labels if state.analysis else ())],
        "protocol": state.options.protocol.id,
        "mode": str(state.options.mode),
        "precision": str(state.options.precision),
        "device": device.model_dump(mode="json") if (device := device_of(state, best)) else None,
        "build_s": best.build.seconds if best and best.build else None,
        "wall_s": state.usage.wall_s if wall_s is None else wall_s,
        "error": error or None,
    }


def _medians(report: TimingReport | None, arms: tuple[str, ...]) -> dict[str, float]:
    return {timing.arm: timing.median_ms for timing in (report.arms if report else ()) if timing.arm in arms}


def _eager_ms(state: State, report: TimingReport | None) -> float | None:
    """From the confirmation, else the newest timing of the loop, else the analysis."""
    timings = [report, state.reference_timing, *(c.timing for c in reversed(state.candidates))]
    for timing in timings:
        if "eager" in (seen := _medians(timing, ("eager",))):
            return seen["eager"]
    return state.analysis.eager_ms if state.analysis else None


def _ratios(interval: Interval | None, value: str, low: str, high: str) -> dict[str, float | None]:
    if interval is None:
        return {value: None, low: None, high: None}
    return {value: interval.value, low: interval.low, high: interval.high}


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
