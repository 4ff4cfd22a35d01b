"""The rules over baselines that were measured before, and over the conditions of a measurement."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from gpu_runner import machine
from gpu_runner.conditions import Conditions, Reading
from gpu_runner.contracts import PROTOCOLS, CandidateFiles, Label, Precision, Source, Speed, TimeTask, TimingReport
from gpu_runner.evidence import recorded, speed_evidence
from gpu_runner.line import offered
from gpu_runner.speed import timing_report
from gpu_runner.timed import CANDIDATE, EAGER, Known, Samples, SpeedEvidence
from tests.gpu_runner.programs import PLAIN, REFERENCE

QUIET = {"cpu_mhz": 2600.0, "governor": "performance", "throttles": 3, "stolen_ticks": 100, "ticks": 1000, "sm_mhz": 1980,
         "memory_mhz": 2619, "temperature_c": 41, "power_w": 180.5, "slowed_by": 0x4, "strangers": 0}  # fmt: skip


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


@pytest.mark.parametrize(
    ("compiled_ns", "speed", "offer"),
    [(1.0e6, Speed.SLOWER, "default"), (1.99e6, Speed.NOT_DISTINGUISHABLE, None), (4.0e6, Speed.NOT_CLAIMED, None)],
)
@pytest.mark.parametrize("before", [True, False])
def test_without_a_candidate_what_torch_compile_is_worth_over_eager_is_told(
    compiled_ns: float, speed: Speed, offer: str | None, before: bool
) -> None:
    evidence = measured(known(2e6, compiled_ns) if before else None)
    del evidence.samples[CANDIDATE]
    if not before:
        evidence.samples["default"] = steady(compiled_ns)
    report = timing_report(evidence)
    assert report.speed is speed
    assert (offered(report) or (None, 0.0))[0] == offer


@pytest.mark.parametrize("eager_ns", [1.7e6, 2.3e6])
def test_a_baseline_does_not_count_once_eager_is_not_what_it_was(eager_ns: float) -> None:
    report = timing_report(measured(known(eager_ns, 0.5e6)))
    assert (report.speed, report.baseline, report.over_compile) == (Speed.FASTER, "eager", None)
    assert {arm.arm for arm in report.arms} == {EAGER, CANDIDATE}
    assert "2026-01-01" in report.errors["default"]


def around(**after: Any) -> Conditions:
    return Conditions(Reading(**QUIET), Reading(**{**QUIET, "ticks": 2000, **after}))


SPOILT = {
    "slowed_by": (0x40, "heat, by the card"),
    "strangers": (1, "other processes"),
    "throttles": (4, "by heat"),
    "stolen_ticks": (160, "hypervisor"),
}


@pytest.mark.parametrize("name", SPOILT)
def test_a_device_that_was_slowed_down_or_shared_in_most_rounds_carries_no_claim(name: str) -> None:
    value, says = SPOILT[name]
    evidence = measured()
    assert timing_report(evidence).facts == {}
    evidence.cores = 2
    evidence.conditions = [around() for _ in range(6)]
    assert timing_report(evidence).speed is Speed.FASTER
    evidence.conditions = [around(**{name: value}) for _ in range(4)] + [around() for _ in range(2)]
    report = timing_report(speed_evidence(recorded(evidence)))
    assert (report.speed, report.labels) == (Speed.NOT_CLAIMED, (Label.UNSTABLE_TIMING,))
    assert says in report.sentence
    for conditions in evidence.conditions[:4]:
        conditions.kept = False  # each was taken again
    assert timing_report(evidence).speed is Speed.FASTER


def test_a_difference_that_others_alone_could_make_is_not_claimed() -> None:
    evidence = measured()  # 2.00 times as fast
    evidence.samples[EAGER].others = [0.4] * 48
    assert timing_report(evidence).speed is Speed.FASTER  # at least 1.2 without them
    evidence.samples[EAGER].others = [0.5] * 48
    report = timing_report(evidence)
    assert (report.speed, report.labels) == (Speed.NOT_CLAIMED, (Label.UNSTABLE_TIMING,))
    assert "50% of the calls" in report.sentence
    evidence.samples[EAGER].others = [0.5] * 23 + [0.01] * 25  # most calls are undisturbed
    assert timing_report(evidence).speed is Speed.FASTER


@pytest.mark.parametrize(("taken", "speed"), [(0.02, Speed.SLOWER), (0.4, Speed.SLOWER), (0.5, Speed.NOT_CLAIMED)])
def test_nor_is_a_slowness_that_others_alone_could_make(taken: float, speed: Speed) -> None:
    evidence = measured()
    evidence.samples[EAGER], evidence.samples[CANDIDATE] = steady(1e6), steady(2e6)
    evidence.samples[CANDIDATE].others = [taken] * 48
    assert timing_report(evidence).speed is speed


@pytest.mark.parametrize("name", ["gaps", "before", "before_cpu", "woken"])
def test_no_noise_excuses_time_outside_the_call_that_takes_half_of_the_gain(name: str) -> None:
    noisy = [1e5 if i % 3 else 2e7 for i in range(48)]  # 0.1 ms, and 20 ms in every third sample
    evidence = measured()
    for arm in evidence.samples.values():
        setattr(arm, name, noisy)
    assert timing_report(evidence).speed is Speed.FASTER
    setattr(evidence.samples[CANDIDATE], name, [value + 0.9e6 for value in noisy])  # 1 ms is saved
    assert Label.CLOCKS_DISAGREE in timing_report(evidence).labels
    evidence.samples[EAGER] = steady(1.02e6)
    setattr(evidence.samples[EAGER], name, noisy)
    assert timing_report(evidence).labels == ()  # nothing is claimed, so nothing has to be doubted


def answers_late(evidence: SpeedEvidence, count: int, call_ns: float = 80e3) -> None:
    """A short program: of all but `count` samples the clock outside sees 80 us more; in those its calls take `call_ns`."""
    evidence.samples[EAGER], evidence.samples[CANDIDATE] = steady(90e3), steady(80e3)
    evidence.samples[EAGER].gaps = [300e3] * 48
    mine = evidence.samples[CANDIDATE]
    mine.gaps = [300e3 if i < count else 380e3 for i in range(48)]
    mine.rounds = [[call_ns if 8 * r + i < count else 80e3 for i in range(8)] for r in range(6)]


def test_a_message_that_is_often_late_is_no_hidden_work() -> None:
    evidence = measured()
    answers_late(evidence, 20)
    report = timing_report(evidence)
    assert (report.speed, report.labels) == (Speed.FASTER, ()), report.sentence
    answers_late(evidence, 4)  # too few to say how long it takes when nothing is late
    assert Label.CLOCKS_DISAGREE in timing_report(evidence).labels
    answers_late(evidence, 20, call_ns=160e3)  # where nothing comes late, it takes as long as what came late would explain
    assert Label.CLOCKS_DISAGREE in timing_report(evidence).labels


def woken_late(evidence: SpeedEvidence, count: int, call_ns: float = 1e6) -> None:
    """In all but `count` samples the candidate's threads are woken 2 ms late; in those its calls take `call_ns`."""
    evidence.samples[EAGER].woken = [1e5] * 48
    mine = evidence.samples[CANDIDATE] = steady(1e6)
    mine.woken = [1e5 if i < count else 2e6 for i in range(48)]
    mine.rounds = [[call_ns if 8 * r + i < count else 1e6 for i in range(8)] for r in range(6)]


def test_threads_that_are_often_found_asleep_are_no_hidden_work() -> None:
    evidence = measured()
    woken_late(evidence, 10)
    report = timing_report(evidence)
    assert (report.speed, report.labels) == (Speed.FASTER, ()), report.sentence
    woken_late(evidence, 4)  # too few to say how long it takes when nothing is done elsewhere
    assert Label.CLOCKS_DISAGREE in timing_report(evidence).labels


def test_a_program_that_sometimes_does_its_work_in_the_call_is_seen() -> None:
    evidence = measured()
    woken_late(evidence, 20, call_ns=2e6)
    assert Label.CLOCKS_DISAGREE in timing_report(evidence).labels


def test_work_hidden_in_two_places_in_turn_is_seen() -> None:
    evidence = measured()
    woken_late(evidence, 20)
    evidence.samples[EAGER].before = [1e6] * 48
    evidence.samples[CANDIDATE].before = [3e6 if i < 20 else 1e6 for i in range(48)]
    assert Label.CLOCKS_DISAGREE in timing_report(evidence).labels


def test_the_conditions_are_told_as_numbers_and_what_cannot_be_read_as_nothing() -> None:
    evidence = measured()
    evidence.cores = 2
    evidence.conditions = [around(cpu_mhz=2400.0, stolen_ticks=110), around()]
    facts = timing_report(evidence).facts["conditions"]
    assert facts["cpu_mhz"] == [2400.0, 2600.0]
    assert facts["power_w"] == [180.5, 180.5]
    assert (facts["governor"], facts["slowed_by"], facts["cpu_throttles"]) == ("performance", "0x4", 0)
    assert (facts["rounds_retaken"], facts["rounds_spoilt"]) == (0, [])
    evidence.conditions = [Conditions(Reading(), Reading())]
    facts = timing_report(evidence).facts["conditions"]
    assert {facts[name] for name in ("governor", "slowed_by", "cpu_throttles")} == {None}
    assert facts["cpu_mhz"] is facts["sm_mhz"] is facts["strangers"] is None
    assert "stolen_share" not in facts


def test_a_round_in_bad_conditions_is_taken_again(hands, monkeypatch: pytest.MonkeyPatch) -> None:
    readings = itertools.chain([0, 0, 0, 0x40], itertools.repeat(0))  # the card is hot after the second round
    monkeypatch.setattr(machine, "read", lambda device: Reading(slowed_by=next(readings)))
    protocol = PROTOCOLS["quick"].model_copy(update={"rounds": 3, "samples_per_round": 2, "half_width": 1e9})
    files = CandidateFiles(files={"model_new.py": PLAIN})
    report = hands.perform(TimeTask(target="cpu", source=Source(text=REFERENCE), candidate=files, protocol=protocol))
    assert isinstance(report, TimingReport)
    assert (report.facts["rounds"], report.facts["conditions"]["rounds_retaken"]) == (3, 1)
    assert report.facts["conditions"]["rounds_spoilt"] == []


def test_this_machine_tells_its_clock_or_that_it_cannot() -> None:
    reading = machine.read("cpu")
    assert reading.cpu_mhz is None or reading.cpu_mhz > 100
    assert reading.ticks is not None
    assert 0 <= (reading.stolen_ticks or 0) <= reading.ticks
    assert reading.sm_mhz is None
