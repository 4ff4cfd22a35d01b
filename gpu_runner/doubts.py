"""Why nothing may be claimed on a timing, as pure functions over what was recorded."""

from __future__ import annotations

import math

from gpu_runner.conditions import spoilt
from gpu_runner.contracts import Interval, Label, Precision
from gpu_runner.stats import agree, median, noise, paired_ratio, percentile
from gpu_runner.timed import CANDIDATE, EAGER, Samples, SpeedEvidence
from gpu_runner.verdict import precision_label

AGREEMENT = 0.08  # a process has its own place in memory, which alone moves a ratio by several per cent
DRIFTED = 3.0  # times what is still called reordered: eager's own error is known of one draw, and varies over others
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


def floor_ms(evidence: SpeedEvidence) -> float | None:
    """The shortest time in which what must be read can be read; caches are cold, so it comes from memory."""
    if not evidence.bandwidth_bps or not evidence.must_read:
        return None
    return 1e3 * evidence.must_read / (BANDWIDTH_MARGIN * evidence.bandwidth_bps)


def doubts(
    evidence: SpeedEvidence, candidate_ms: float, floor: float | None, ratio: Interval, claimed: bool
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
    if floor is not None and candidate_ms < floor:
        doubt(
            Label.BELOW_FLOOR,
            f"{candidate_ms:.3g} ms is less than the {floor:.3g} ms that reading its inputs from this memory takes",
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
    outside_clock = hidden > limit and not quick_with_nothing_around(samples[CANDIDATE], samples[EAGER])
    if outside_clock or (saved > 0.0 and unseen > max(UNSEEN_FLOOR_NS, UNSEEN_SHARE * saved)):
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
        first_ratio, again = (paired_ratio(s[EAGER].rounds, s[CANDIDATE].rounds, protocol) for s in both)
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
        (mine.gaps, eager.gaps, 0.0), (mine.unclaimed, eager.unclaimed, 0.0), (mine.before, eager.before, BEFORE_NOISE),
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
