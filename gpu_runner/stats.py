"""The statistics of a timing: robust, paired by sample, with an honest interval. Standard library only."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from gpu_runner.contracts import Interval, Protocol, Speed

Rounds = Sequence[Sequence[float]]  # the samples of an arm, by round
SIMULATED, ALMOST_ALL = 200, 0.95  # comparisons of a program with itself, and the share of them that noise is to cover
# Standard deviations of the median of so few normal values, in units of their own; of more it is nearly the root of pi/2n.
_OF_MEDIAN = {2: 0.7071, 3: 0.6698, 4: 0.5459, 5: 0.5356}
SMOOTHING = 1.78  # of what values usually are apart, over the fifth root of their number: 1.0 of eighteen, 0.7 of a hundred
_NORMAL = 1.4826  # standard deviations of a normal distribution, by the median distance from its middle


def median(values: Sequence[float]) -> float:
    """The median. Raises ValueError when there is nothing."""
    if not values:
        raise ValueError("the median of nothing")
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2.0


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` (0..1) of the samples lie, linearly interpolated."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError("the percentile of nothing")
    at = share * (len(ordered) - 1)
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def interval(values: Sequence[float], confidence: float) -> Interval:
    """The median of `values` and where the true one lies with at least that confidence, whatever their distribution.

    The bounds are values themselves: so far from either end that the true median lies beyond them as seldom as a fair coin
    shows so few heads. Values are independent: medians of rounds, not samples. With too few for the confidence (at 95 % less
    than six) it is all of them. A percentile bootstrap of six to ten values is narrower, and wrong in one case of ten.
    """
    ordered, value = sorted(values), median(values)
    beyond, count = 0, len(ordered)
    at_most = 0.0
    while (at_most := at_most + math.comb(count, beyond) / 2.0**count) <= (1.0 - confidence) / 2.0:
        beyond += 1
    place = max(0, beyond - 1)
    return Interval(value=value, low=ordered[place], high=ordered[count - 1 - place])


def paired(baseline: Rounds, candidate: Rounds) -> list[list[float]]:
    """How many times longer the baseline took, sample by sample, in their rounds. Arms are called one after the other in each
    sample, so what slows the machine for longer than that slows both. Raises ValueError where there is nothing to pair."""
    sizes = [len(samples) for samples in baseline]
    if not sizes or min(sizes) == 0 or sizes != [len(samples) for samples in candidate]:
        raise ValueError("samples must be paired")
    return [[b / c for b, c in zip(*both, strict=True)] for both in zip(baseline, candidate, strict=True)]


def paired_ratio(baseline: Rounds, candidate: Rounds, protocol: Protocol) -> Interval:
    """How many times faster the candidate is: the median of the ratios of samples that were taken together.

    Its interval is that of so many independent values, made wider by as much as the medians of rounds lie further apart than
    such values would let them: samples of one round may have more in common than chance.
    """
    ratios = paired(baseline, candidate)
    bounds, wider = interval([ratio for some in ratios for ratio in some], protocol.confidence), within_rounds(ratios)
    value = bounds.value
    return Interval(value=value, low=value * (bounds.low / value) ** wider, high=value * (bounds.high / value) ** wider)


def within_rounds(ratios: Rounds) -> float:
    """How much further the medians of rounds lie apart than those of independent values (the root of a design effect), at least
    1. Rounds of one value tell nothing of it."""
    logs = [[math.log(ratio) for ratio in some] for some in ratios]
    size = min(map(len, logs))
    usual = _apart([value for some in logs for value in some])
    if size < 2 or usual == 0.0:
        return 1.0
    return max(1.0, _apart([median(some) for some in logs]) / (usual * _OF_MEDIAN.get(size, math.sqrt(math.pi / 2.0 / size))))


def _apart(values: Sequence[float]) -> float:
    """The standard deviation of a normal distribution whose middle half is as wide."""
    middle = median(values)
    return _NORMAL * median([abs(value - middle) for value in values])


def linked_ratio(first: tuple[Rounds, Rounds], second: tuple[Rounds, Rounds], protocol: Protocol) -> Interval:
    """A ratio over a third program that was measured beside both: (baseline, link) at one time, (link, candidate) at another.

    The two are independent, so their distances add up in squares, on a scale of ratios.
    """
    left, right = (paired_ratio(*pair, protocol) for pair in (first, second))
    value = left.value * right.value
    below = math.hypot(*(math.log(part.value / part.low) for part in (left, right)))
    above = math.hypot(*(math.log(part.high / part.value) for part in (left, right)))
    return Interval(value=value, low=value * math.exp(-below), high=value * math.exp(above))


def spread(rounds: Rounds) -> float | None:
    """How far the median of all values lies from the truth, 0.01 = 1 %: nineteen of twenty times it lies nearer.

    Simulated medians are made of the values' distances from their round's median, drawn anew. Where rounds hold one value,
    distances are those within two rounds that follow each other. The same rounds always give the same number. None with too
    few values.

    A drawn distance is moved by a normal step (a smoothed bootstrap; `SMOOTHING`): a median is at no distance from itself, and
    of few values it is a large share. On values whose truth is known 91 % and more of all comparisons stay within, where a
    fifth of the values is disturbed, too (`tests/gpu_runner/test_stats.py`).
    """
    groups = [r for r in rounds if len(r) >= 2] or [(*a, *b) for a, b in zip(rounds[0::2], rounds[1::2], strict=False)]
    if len(groups) < 2:
        return None
    apart = [math.log(x / median(group)) * math.sqrt(len(group) / (len(group) - 1)) for group in groups for x in group]
    again, count = random.Random(0), sum(map(len, rounds))  # noqa: S311 - nothing secret
    step = SMOOTHING * count**-0.2 * _NORMAL * median([abs(distance) for distance in apart])
    found = [
        abs(median([distance + again.gauss(0.0, step) for distance in again.choices(apart, k=count)])) for _ in range(SIMULATED)
    ]
    return math.expm1(percentile(found, ALMOST_ALL))


def noise(rounds: Rounds) -> float | None:
    """How far two timings of one program lie apart, 0.01 = 1 %, when each is the median of samples as restless as these."""
    one = spread(rounds)
    return None if one is None else math.sqrt(2.0) * one


def noise_between(baseline: Rounds, candidate: Rounds) -> float | None:
    """How far a `paired_ratio` of two equal programs lies from one, 0.01 = 1 %, by what the ratios of samples differ alone."""
    return spread(paired(baseline, candidate))


def speed_word(ratio: Interval, protocol: Protocol, noise: float | None = None) -> Speed:
    """Faster: the ratio reaches the protocol's and what `noise` alone can make, and the whole interval lies above one. Slower:
    the mirror of it."""
    least = max(protocol.faster_ratio, 1.0 + (noise or 0.0))
    if ratio.value >= least and ratio.low > 1.0:
        return Speed.FASTER
    if ratio.value <= 1.0 / least and ratio.high < 1.0:
        return Speed.SLOWER
    return Speed.NOT_DISTINGUISHABLE


def agree(first: Interval, second: Interval, tolerance: float) -> bool:
    """Whether two measurements of one ratio tell the same: their intervals, widened by `tolerance` (0.03 = 3 %), overlap."""
    return first.low / (1.0 + tolerance) <= second.high and second.low / (1.0 + tolerance) <= first.high
