"""The rules over baselines that were measured before, and over the conditions of a measurement. Figures alone, nothing runs."""

from __future__ import annotations

import pytest

from gpu_runner.contracts import PROTOCOLS, Precision, Speed
from gpu_runner.evidence import recorded, speed_evidence
from gpu_runner.speed import CANDIDATE, EAGER, Known, Samples, SpeedEvidence, timing_report


def steady(ns: float, rounds: int = 6) -> Samples:
    return Samples([[ns * (1 + 0.001 * ((i + k) % 5)) for k in range(8)] for i in range(rounds)], [2e4] * (8 * rounds))


def measured(known: Known | None = None) -> SpeedEvidence:
    """Eager takes 2 ms and the candidate 1 ms."""
    samples = {EAGER: steady(2e6), CANDIDATE: steady(1e6)}
    evidence = SpeedEvidence(PROTOCOLS["strict"], Precision.AS_REFERENCE, samples=samples, known=known)
    return speed_evidence(recorded(evidence))  # as a file gives it back


def known(eager_ns: float, compiled_ns: float) -> Known:
    arms = {EAGER: steady(eager_ns, 10), "default": steady(compiled_ns, 10)}
    return Known(arms, {"max-autotune": "it has none"}, {"default": 7.0}, "2026-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("compiled_ns", "speed", "baseline"),
    [(1.26e6, Speed.FASTER, "default"), (1.05e6, Speed.NOT_DISTINGUISHABLE, "default"), (0.5e6, Speed.SLOWER, "default"),
     (4.0e6, Speed.FASTER, "eager")],
)  # fmt: skip
def test_a_baseline_that_was_measured_before_counts_by_what_eager_takes_now(
    compiled_ns: float, speed: Speed, baseline: str
) -> None:
    report = timing_report(measured(known(2.1e6, compiled_ns)))  # eager took 5 % longer then
    assert (report.speed, report.baseline) == (speed, baseline)
    assert report.over_compile is not None
    assert report.over_compile.value == pytest.approx(compiled_ns / 1.05e6, rel=0.01)
    assert report.errors == {"max-autotune": "it has none"}
    arms = {arm.arm: arm for arm in report.arms}
    assert arms["default"].build_s == 7.0
    assert report.facts["known"] == {
        "arms": ["default"], "measured": "2026-01-01T00:00:00Z", "eager_then_over_now": pytest.approx(1.05, rel=0.01),
    }  # fmt: skip


@pytest.mark.parametrize("eager_ns", [1.7e6, 2.3e6])
def test_a_baseline_does_not_count_once_eager_is_not_what_it_was(eager_ns: float) -> None:
    report = timing_report(measured(known(eager_ns, 0.5e6)))
    assert (report.speed, report.baseline, report.over_compile) == (Speed.FASTER, "eager", None)
    assert {arm.arm for arm in report.arms} == {EAGER, CANDIDATE}
    assert "2026-01-01" in report.errors["default"]
