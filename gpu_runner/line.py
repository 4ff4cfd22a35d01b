"""The one result line: the same keys and meanings wherever a verdict is printed, stored or compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpu_runner.contracts import CheckReport, DeviceInfo, Interval, Label, Mode, Precision, Speed, TimingReport, Verdict

LEAST_OFFERED = 1.05  # as fast as eager, or nothing of torch.compile is offered
COMPILE_ARMS = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


def result_line(
    *,
    file: str,
    verdict: str,
    protocol: str,
    mode: Mode,
    precision: Precision,
    check: CheckReport | None = None,
    timing: TimingReport | None = None,
    labels: Sequence[Label] = (),
    device: DeviceInfo | None = None,
    build_s: float | None = None,
    wall_s: float | None = None,
    error: str = "",
) -> dict[str, Any]:
    """The line of one program. Times in milliseconds (`*_ms`) and seconds (`*_s`); what was not measured is None, and so is a
    ratio that is not claimed. `offered`: the mode of torch.compile that is better than anything that was written."""
    verified, offer = verdict == Verdict.VERIFIED, offered(timing)
    ratios = timing if verified and timing is not None and timing.speed is not Speed.NOT_CLAIMED else None
    return {
        "file": file,
        "verdict": verdict,
        "speed": str(ratios.speed if ratios else Speed.NOT_CLAIMED),
        "baseline": timing.baseline if timing and timing.arms else None,
        "eager_ms": _medians(timing, ("eager",)).get("eager"),
        "compile_ms": _medians(timing, COMPILE_ARMS),
        "baseline_errors": dict(timing.errors) if timing else {},
        "candidate_ms": _medians(timing, ("candidate",)).get("candidate"),
        **_ratios(ratios.over_eager if ratios else None, "speedup_vs_eager", "ci_low", "ci_high"),
        **_ratios(ratios.over_compile if ratios else None, "speedup_vs_compile", "ci_compile_low", "ci_compile_high"),
        "offered": offer[0] if offer else None,
        "offered_vs_eager": offer[1] if offer else None,
        "operator_coverage": check.coverage if check else None,
        "labels": [str(label) for label in dict.fromkeys(labels)],
        "protocol": protocol,
        "mode": str(mode),
        "precision": str(precision),
        "device": device.model_dump(mode="json") if device else None,
        "build_s": build_s,
        "wall_s": wall_s,
        "error": error or None,
    }


def offered(timing: TimingReport | None) -> tuple[str, float] | None:
    """The mode of torch.compile that somebody should take in place of what was written, or where nothing was, and how many
    times as fast as eager it is. None for none, and where the times were too restless for any claim.

    It must be a correct baseline and faster: than the candidate by the interval's word, or without one than eager by a claim's
    least ratio.
    """
    if timing is None or timing.baseline not in COMPILE_ARMS or timing.speed is Speed.NOT_CLAIMED:
        return None
    medians = _medians(timing, (timing.baseline, "eager", "candidate"))
    if "eager" not in medians or not medians.get(timing.baseline):
        return None
    gain = medians["eager"] / medians[timing.baseline]
    better = timing.speed is Speed.SLOWER if "candidate" in medians else gain >= LEAST_OFFERED
    return (timing.baseline, gain) if better else None


def _medians(report: TimingReport | None, arms: tuple[str, ...]) -> dict[str, float]:
    return {timing.arm: timing.median_ms for timing in (report.arms if report else ()) if timing.arm in arms}


def _ratios(interval: Interval | None, value: str, low: str, high: str) -> dict[str, float | None]:
    if interval is None:
        return {value: None, low: None, high: None}
    return {value: interval.value, low: interval.low, high: interval.high}
