"""The rules of a timing, as pure functions over what was measured. No process is touched: evidence can be replayed."""

from __future__ import annotations

from typing import Any

from gpu_runner.conditions import conditions_facts
from gpu_runner.contracts import ArmTiming, HackClass, Interval, Protocol, Speed, TimingReport, Verdict
from gpu_runner.doubts import doubts, floor_ms, interferes
from gpu_runner.stats import interval, linked_ratio, median, noise, noise_between, paired, paired_ratio, percentile, speed_word
from gpu_runner.timed import CANDIDATE, EAGER, Samples, SpeedEvidence, WrongCall
from gpu_runner.verdict import Trouble, candidate_failure, numeric, reference_failure, structural

SAME_EAGER = 0.1  # eager then against eager now, beyond the noise of both: further apart, the machine is another


def timing_report(evidence: SpeedEvidence) -> TimingReport:
    """What may be said about the speed, with its sentence, labels and every figure."""
    protocol = evidence.protocol
    known, errors = _known(evidence)
    failed: dict[str, Any] = {"errors": errors, "protocol": protocol.id}
    if evidence.wrong is not None:
        return _wrong(evidence.wrong, protocol, failed)
    if evidence.trouble is not None:
        verdict, _, sentence = (
            candidate_failure(evidence.trouble) if evidence.trouble.side == CANDIDATE else reference_failure(evidence.trouble)
        )
        return TimingReport(verdict=verdict, sentence=sentence, **failed)
    if interferes(evidence.busy):
        share = median(evidence.busy)
        sentence = f"While other arms were timed the program kept {share:.0%} of a core busy: to slow them is no speed."
        return TimingReport(verdict=Verdict.HACK, hack=HackClass.BASELINE_SLOWDOWN, sentence=sentence, **failed)
    samples = evidence.samples
    timings = {name: _arm(name, arm, evidence) for name, arm in {**samples, **known}.items()}
    now_ms = {name: _now_ms(name, evidence) for name in timings}
    baselines = [name for name in timings if name != CANDIDATE]
    baseline = min(baselines, key=now_ms.__getitem__)
    compiled = [name for name in baselines if name != EAGER]
    best_compiled = min(compiled, key=now_ms.__getitem__) if compiled else None
    alone, with_candidate = samples[EAGER].rounds, samples.get(CANDIDATE)
    measured_noise = noise_between(alone, with_candidate.rounds) if with_candidate else noise(alone)
    floor = floor_ms(evidence)
    common: dict[str, Any] = {
        "arms": tuple(timings.values()), "errors": errors, "baseline": baseline, "noise": measured_noise,
        "floor_ms": floor, "protocol": protocol.id, "facts": _facts(evidence),
    }  # fmt: skip
    if CANDIDATE not in samples:
        sentence = f"Eager takes {timings[EAGER].median_ms:.4g} ms."
        return TimingReport(**common, speed=_of_eager(evidence, baseline, measured_noise), sentence=sentence)

    def over(name: str) -> Interval:
        if name in samples:
            return paired_ratio(samples[name].rounds, samples[CANDIDATE].rounds, protocol)
        then = evidence.known.samples if evidence.known else {}
        link = then[name].rounds, then[EAGER].rounds
        return linked_ratio(link, (samples[EAGER].rounds, samples[CANDIDATE].rounds), protocol)

    over_baseline = over(baseline)
    speed = speed_word(over_baseline, protocol, measured_noise)
    labels, reasons = doubts(evidence, timings[CANDIDATE].median_ms, floor, over_baseline, speed is Speed.FASTER)
    speed = Speed.NOT_CLAIMED if reasons else speed
    return TimingReport(
        **common,
        speed=speed,
        over_eager=over(EAGER),
        over_compile=over(best_compiled) if best_compiled else None,
        over_baseline=over_baseline,
        second_process_ms=median(evidence.second[CANDIDATE].all) / 1e6 if evidence.second else None,
        sentence=_sentence(speed, over_baseline, baseline, reasons),
        labels=tuple(labels),
    )


def _of_eager(evidence: SpeedEvidence, baseline: str, noise: float | None) -> Speed:
    """Without a candidate it is eager's speed that is told against the fastest arm: slower, where torch.compile is worth it."""
    if baseline == EAGER or evidence.degenerate:
        return Speed.NOT_CLAIMED
    both = evidence.samples if baseline in evidence.samples or evidence.known is None else evidence.known.samples
    return speed_word(paired_ratio(both[baseline].rounds, both[EAGER].rounds, evidence.protocol), evidence.protocol, noise)


def eager_then_over_now(evidence: SpeedEvidence) -> float | None:
    """The A/A test of baselines that were measured before: eager's time then over its time now; None where there are none."""
    if evidence.known is None or EAGER not in evidence.samples:
        return None
    return median(evidence.known.samples[EAGER].all) / median(evidence.samples[EAGER].all)


def known_holds(evidence: SpeedEvidence) -> bool:
    """Whether eager is as fast as it was when the known baselines were measured."""
    ratio = eager_then_over_now(evidence)
    if ratio is None or evidence.known is None:
        return False
    both = (evidence.known.samples[EAGER].rounds, evidence.samples[EAGER].rounds)
    most = 1.0 + SAME_EAGER + sum(noise(rounds) or 0.0 for rounds in both)
    return 1.0 / most <= ratio <= most


def _known(evidence: SpeedEvidence) -> tuple[dict[str, Samples], dict[str, str]]:
    """(the known arms that count, why every arm without a number has none)."""
    known = evidence.known
    if known is None:
        return {}, evidence.errors
    arms = {name: samples for name, samples in known.samples.items() if name != EAGER}
    if known_holds(evidence):
        return arms, {**known.errors, **evidence.errors}
    then_over_now = eager_then_over_now(evidence)
    text = f"it was measured at {known.measured}, when eager took {then_over_now or 0.0:.2f} of what it takes now"
    return {}, {**known.errors, **dict.fromkeys(arms, text), **evidence.errors}


def _facts(evidence: SpeedEvidence) -> dict[str, Any]:
    facts = dict(evidence.facts)
    if machine := conditions_facts(evidence.conditions, evidence.cores):
        facts["conditions"] = machine
    if evidence.known is None:
        return facts
    ratio, arms = eager_then_over_now(evidence), [name for name in evidence.known.samples if name != EAGER]
    return facts | {"known": {"arms": arms, "measured": evidence.known.measured, "eager_then_over_now": round(ratio or 0.0, 4)}}


def _now_ms(name: str, evidence: SpeedEvidence) -> float:
    """An arm's time; of one that was measured before, what it is by eager's time now."""
    if name in evidence.samples or evidence.known is None:
        return median(evidence.samples[name].all) / 1e6
    then = evidence.known.samples
    over_eager = median([ratio for some in paired(then[name].rounds, then[EAGER].rounds) for ratio in some])
    return over_eager * median(evidence.samples[EAGER].all) / 1e6


def problem_of(wrong: WrongCall, protocol: Protocol) -> str:
    """What was wrong with it, as a part of a sentence."""
    if wrong.lazy:
        return f"it is a {wrong.lazy}, which may compute when it is read"
    if wrong.late:
        return "it went on changing after the call had returned"
    return structural(wrong.numbers) or numeric(wrong.numbers, None, protocol)


def _wrong(wrong: WrongCall, protocol: Protocol, failed: dict[str, Any]) -> TimingReport:
    sentence = f"A result of a timed call is wrong: {problem_of(wrong, protocol)}."
    if wrong.late or wrong.lazy:
        kind = HackClass.LAZY_TENSOR if wrong.lazy else HackClass.BACKGROUND_THREAD
        return TimingReport(verdict=Verdict.HACK, hack=kind, sentence=sentence, **failed)
    verdict, _, sentence = candidate_failure(Trouble(CANDIDATE, "wrong_when_timed", sentence))
    # It was right before on content of the same kind.
    hack = None if wrong.first else HackClass.OUTPUT_CACHE if wrong.before else HackClass.WARMUP_DETECTION
    return TimingReport(verdict=verdict, hack=hack, sentence=sentence, **failed)


def _arm(name: str, samples: Samples, evidence: SpeedEvidence) -> ArmTiming:
    protocol = evidence.protocol
    values = [value / 1e6 for value in samples.all]
    bounds = interval([m / 1e6 for m in samples.medians], protocol.confidence)
    return ArmTiming(
        arm=name,
        median_ms=median(values),
        low_ms=bounds.low,
        high_ms=bounds.high,
        p10_ms=percentile(values, 0.1),
        p90_ms=percentile(values, 0.9),
        samples=len(values),
        rounds=tuple(m / 1e6 for m in samples.medians),
        build_s=((evidence.known.build_s if evidence.known else {}) | evidence.build_s).get(name),
    )


def _sentence(speed: Speed, ratio: Interval, baseline: str, reasons: list[str]) -> str:
    against = "eager" if baseline == EAGER else f"torch.compile ({baseline})"
    text = f"{ratio.value:.2f}× ({ratio.low:.2f} to {ratio.high:.2f}) against {against}"
    if reasons:
        return f"No speed is claimed ({'; '.join(reasons)}); measured {text}."
    words = {
        Speed.FASTER: f"Faster: {text}.",
        Speed.SLOWER: f"Slower: {text}.",
        Speed.NOT_DISTINGUISHABLE: f"Not distinguishable: {text}.",
    }
    return words.get(speed, f"Measured {text}.")
