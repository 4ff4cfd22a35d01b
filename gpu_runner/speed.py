"""The rules of a timing, as pure functions over what was measured. No process is touched: evidence can be replayed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from gpu_runner.conditions import Conditions, conditions_facts, spoilt
from gpu_runner.contracts import ArmTiming, HackClass, Interval, Label, Precision, Protocol, Speed, TimingReport, Verdict
from gpu_runner.stats import agree, interval, linked_ratio, median, noise, paired_ratio, percentile, speed_word
from gpu_runner.verdict import Trouble, candidate_failure, numeric, precision_label, reference_failure, structural

CANDIDATE = "candidate"
EAGER = "eager"
AGREEMENT = 0.03
DRIFTED = 3.0  # times what is still called reordered: eager's own error is known of one draw, and varies over others
SAME_EAGER = 0.1  # eager then against eager now, beyond the noise of both: further apart, the machine is another
HIDDEN_SHARE = 0.1
UNSEEN_FLOOR_NS = 20_000.0
UNSEEN_SHARE = 0.5
HIDDEN_GAIN = 0.5  # of what a call seems to save
BEFORE_NOISE = 0.15  # of eager's own time for laying out the inputs
WOKEN_NOISE = 1.0  # of eager's own time for waking threads
AFTER_NOISE = 0.8  # of eager's own time for taking the results out: they may lie in caches, or in memory
LEAST_AROUND = 5
DISTURBED = 0.03  # of a call: in a sample that is kept others may take no more from it, as far as any is left
BUSY_SHARE = 0.25  # of a core, while others are called
LEAST_BUSY = 8
MOST_SPOILT = 0.5  # of the rounds, or of the samples
HIDDEN_FLOOR_NS = 50_000.0  # a round trip to a sandbox varies by this much
BANDWIDTH_MARGIN = 1.05  # over the highest rate that was ever measured on the device


@dataclass
class Samples:
    """One arm's measurements: nanoseconds by round, and the parent's clock minus the claim for every call."""

    rounds: list[list[float]] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)
    unclaimed: list[float] = field(default_factory=list)  # what its first thread ran meanwhile, minus the claim
    before: list[float] = field(default_factory=list)  # the parent's clock around laying out the inputs
    before_cpu: list[float] = field(default_factory=list)  # what its processes ran from there until the call
    woken: list[float] = field(default_factory=list)  # the parent's clock around waking its threads for the call
    others: list[float] = field(default_factory=list)  # share of a call that other processes took from it
    after: list[float] = field(default_factory=list)  # and around taking the results out, where they have eager's strides

    @property
    def all(self) -> list[float]:
        return [value for samples in self.rounds for value in samples]

    @property
    def medians(self) -> list[float]:
        return [median(samples) for samples in self.rounds]


@dataclass
class WrongCall:
    """A result of a timed call that was not eager's: whose, and the judge's numbers."""

    arm: str
    numbers: dict[str, Any]
    late: bool = False  # it changed after the call had returned
    before: bool = False  # it is the result of the sample before
    first: bool = False  # the very first one that was compared
    lazy: str = ""  # the type of a result that is no plain tensor


@dataclass
class Known:
    """Baselines that were measured before this candidate: eager and compiled arms side by side. `measured`: when, in UTC."""

    samples: dict[str, Samples]
    errors: dict[str, str] = field(default_factory=dict)
    build_s: dict[str, float] = field(default_factory=dict)
    measured: str = ""


@dataclass
class SpeedEvidence:
    """Everything the words over a timing rest on. `second`: eager and the candidate once more, in fresh processes.

    `drift`: of results of timed calls, how far the candidate's lie from eager's, in units of eager's own error (RMS).
    `known`: the baselines where they were not measured with this candidate. `must_read`: bytes that lie in memory before a
    call and that any program must read. `error_ratio`: the candidate's error in units of eager's own. `errors`: why an arm has
    no samples.
    """

    protocol: Protocol
    precision: Precision
    samples: dict[str, Samples] = field(default_factory=dict)
    second: dict[str, Samples] | None = None
    known: Known | None = None
    errors: dict[str, str] = field(default_factory=dict)
    build_s: dict[str, float] = field(default_factory=dict)
    degenerate: bool = False
    inputs_constant: bool = False
    error_ratio: float | None = None
    drift: list[float] = field(default_factory=list)
    must_read: int = 0
    bandwidth_bps: float | None = None
    wrong: WrongCall | None = None
    trouble: Trouble | None = None
    cores: int = 1  # that this process may use
    conditions: list[Conditions] = field(default_factory=list)  # of every round, in order
    busy: list[float] = field(default_factory=list)  # what the candidate ran while other arms were called, in cores
    facts: dict[str, Any] = field(default_factory=dict)


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
    measured_noise = noise(samples[EAGER].rounds)
    floor = _floor_ms(evidence)
    common: dict[str, Any] = {
        "arms": tuple(timings.values()), "errors": errors, "baseline": baseline, "noise": measured_noise,
        "floor_ms": floor, "protocol": protocol.id, "facts": _facts(evidence),
    }  # fmt: skip
    if CANDIDATE not in samples:
        return TimingReport(**common, sentence=f"Eager takes {timings[EAGER].median_ms:.4g} ms.")

    def over(name: str) -> Interval:
        if name in samples:
            return paired_ratio(samples[name].medians, samples[CANDIDATE].medians, protocol)
        then = evidence.known.samples if evidence.known else {}
        link = then[name].medians, then[EAGER].medians
        return linked_ratio(link, (samples[EAGER].medians, samples[CANDIDATE].medians), protocol)

    over_baseline = over(baseline)
    speed = speed_word(over_baseline, protocol, measured_noise)
    labels, reasons = _doubts(evidence, timings[CANDIDATE].median_ms, floor, over_baseline, speed is Speed.FASTER)
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
    over_eager = median([a / b for a, b in zip(then[name].medians, then[EAGER].medians, strict=True)])
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


def _floor_ms(evidence: SpeedEvidence) -> float | None:
    """The shortest time in which what must be read can be read; caches are cold, so it comes from memory."""
    if not evidence.bandwidth_bps or not evidence.must_read:
        return None
    return 1e3 * evidence.must_read / (BANDWIDTH_MARGIN * evidence.bandwidth_bps)


def _doubts(
    evidence: SpeedEvidence, candidate_ms: float, floor_ms: float | None, ratio: Interval, claimed: bool
) -> tuple[list[Label], list[str]]:
    """(labels, reasons why nothing may be claimed)."""
    protocol, samples = evidence.protocol, evidence.samples
    labels: list[Label] = []
    reasons: list[str] = []

    def doubt(label: Label, reason: str) -> None:
        labels.append(label)
        reasons.append(reason)

    if evidence.degenerate:
        doubt(Label.DEGENERATE, "a trivial program would pass as well")
    if evidence.inputs_constant:
        labels.append(Label.INPUTS_CONSTANT)
    reduced = precision_label(evidence.error_ratio, protocol) is Label.REDUCED_PRECISION
    reduced = reduced or (bool(evidence.drift) and median(evidence.drift) > DRIFTED * protocol.ratio_reordered)
    if reduced and evidence.precision is Precision.AS_REFERENCE:
        doubt(Label.REDUCED_PRECISION, "it computes at a lower precision than the baseline")
    if floor_ms is not None and candidate_ms < floor_ms:
        doubt(
            Label.BELOW_FLOOR,
            f"{candidate_ms:.3g} ms is less than the {floor_ms:.3g} ms that reading its inputs from this memory takes",
        )
    bad = [reason for c in evidence.conditions if c.kept and (reason := spoilt(c, evidence.cores))]
    if len(bad) > MOST_SPOILT * max(1, sum(c.kept for c in evidence.conditions)):
        doubt(Label.UNSTABLE_TIMING, f"in {len(bad)} rounds {bad[0]}")
    if (taken := others_explain(evidence, ratio)) is not None:
        doubt(Label.UNSTABLE_TIMING, f"other processes took {taken:.0%} of the calls of what seems to be slower")
    hidden, uncertain = hidden_ns(samples[CANDIDATE].gaps, samples[EAGER].gaps)
    own = median(samples[CANDIDATE].all)
    saved = median(samples[EAGER].all) - own
    # For short programs: what was saved the kernel must not have seen either. Waiting for a core is no part of that.
    unseen = _clear_of(samples[CANDIDATE].unclaimed, samples[EAGER].unclaimed)
    # Where a gain would be claimed, no noise excuses time outside the call that takes half of it.
    excused = HIDDEN_GAIN * saved if claimed and saved > 0.0 else math.inf
    usual = max(uncertain, percentile(samples[EAGER].gaps, 0.9) - median(samples[EAGER].gaps))
    limit = max(HIDDEN_FLOOR_NS, HIDDEN_SHARE * (own + hidden), min(usual, excused))
    if hidden > limit or (saved > 0.0 and unseen > max(UNSEEN_FLOOR_NS, UNSEEN_SHARE * saved)):
        hidden = max(hidden, unseen)
        doubt(
            Label.CLOCKS_DISAGREE,
            f"a clock outside saw {hidden / 1e6:.3g} ms more of each call than the program's own process",
        )
    mine, eager = samples[CANDIDATE], samples[EAGER]
    for when, what, ours, theirs, share in (
        ("inputs were laid out", "took", mine.before, eager.before, BEFORE_NOISE),
        ("inputs were laid out", "worked", mine.before_cpu, eager.before_cpu, BEFORE_NOISE),
        ("threads were woken", "took", mine.woken, eager.woken, WOKEN_NOISE),
        ("results were taken out", "took", mine.after, eager.after, AFTER_NOISE),
    ):
        if min(len(ours), len(theirs)) < LEAST_AROUND:
            continue
        outside, uncertain = hidden_ns(ours, theirs)
        usual = max(uncertain, percentile(theirs, 0.9) - median(theirs))
        around = max(HIDDEN_SHARE * (own + outside), share * median(theirs))
        if outside > max(HIDDEN_FLOOR_NS, around, min(usual, excused)):
            if ours is not mine.after and quick_with_nothing_around(mine, eager):
                continue
            doubt(Label.CLOCKS_DISAGREE, f"it {what} {outside / 1e6:.3g} ms more than eager while {when}, outside the call")
            break
    if evidence.second is not None:
        both = (samples, evidence.second)
        first_ratio, again = (paired_ratio(s[EAGER].medians, s[CANDIDATE].medians, protocol) for s in both)
        tolerance = AGREEMENT + sum(noise(s[EAGER].rounds) or 0.0 for s in both)
        if not agree(first_ratio, again, tolerance):
            doubt(
                Label.UNSTABLE_TIMING,
                f"a second process gave {again.value:.2f}× over eager where the first gave {first_ratio.value:.2f}×",
            )
    return labels, reasons


def others_explain(evidence: SpeedEvidence, ratio: Interval) -> float | None:
    """The share that others took from the side that seems to be slower, where that alone could make the difference.

    Without them its calls would have taken at least the rest. None where they took next to nothing, or too little for that.
    """
    faster = ratio.value >= 1.0
    slow = evidence.samples[EAGER if faster else CANDIDATE]
    taken = median(slow.others) if slow.others else 0.0
    if taken <= DISTURBED:
        return None
    rest = max(0.0, 1.0 - taken)
    value, low = (ratio.value, ratio.low) if faster else (1.0 / ratio.value, 1.0 / ratio.high)
    clear = low * rest > 1.0 and value * rest >= evidence.protocol.faster_ratio
    return None if clear else taken


def quick_with_nothing_around(mine: Samples, eager: Samples) -> bool:
    """Whether the calls around which nothing more was done than around eager's are as quick as all are.

    Then what was seen around others is no part of the call's work: cores that were found asleep, pages that were new. A program
    that does its work elsewhere has no such calls, or slow ones.
    """
    around = (
        (mine.gaps, eager.gaps, 0.0), (mine.before, eager.before, BEFORE_NOISE),
        (mine.before_cpu, eager.before_cpu, BEFORE_NOISE), (mine.woken, eager.woken, WOKEN_NOISE),
    )  # fmt: skip
    calls = mine.all
    known = [(ours, theirs, share) for ours, theirs, share in around if ours]
    if any(len(ours) != len(calls) or not theirs for ours, theirs, _ in known):
        return False
    limits = [median(theirs) + max(HIDDEN_FLOOR_NS, share * median(theirs)) for _, theirs, share in known]
    clean = [
        took
        for number, took in enumerate(calls)
        if all(ours[number] <= limit for (ours, _, _), limit in zip(known, limits, strict=True))
    ]
    return len(clean) >= LEAST_AROUND and median(clean) <= (1.0 + HIDDEN_SHARE) * median(calls)


def interferes(busy: list[float]) -> bool:
    """Whether the candidate's processes worked while other arms were called."""
    return len(busy) >= LEAST_BUSY and median(busy) > BUSY_SHARE


def hidden_ns(candidate: list[float], eager: list[float]) -> tuple[float, float]:
    """(how much more of the candidate's call the parent's clock saw than its own, above eager's; what is noise of that)."""
    spread = max(_spread(candidate), _spread(eager))
    return median(candidate) - median(eager), 5.0 * spread / math.sqrt(max(1, len(eager)))


def _clear_of(candidate: list[float], eager: list[float]) -> float:
    """How far the bulk of the candidate's values lies above the bulk of eager's; below zero where they overlap."""
    if not candidate or not eager:
        return 0.0
    return percentile(candidate, 0.25) - percentile(eager, 0.75)


def _spread(values: list[float]) -> float:
    middle = median(values)
    return 1.4826 * median([abs(v - middle) for v in values])


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
