"""The statistics of a timing: robust, paired by round, with an honest interval. Standard library only."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from gpu_runner.contracts import Interval, Protocol, Speed

SIMULATED, ALMOST_ALL = 200, 0.95  # comparisons of a program with itself, and the share of them that noise is to cover
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


def paired_ratio(baseline: Sequence[float], candidate: Sequence[float], protocol: Protocol) -> Interval:
    """How many times faster the candidate is: the median over rounds of the ratios of their medians."""
    if len(baseline) != len(candidate) or not baseline:
        raise ValueError("rounds must be paired")
    return interval([b / c for b, c in zip(baseline, candidate, strict=True)], protocol.confidence)


def linked_ratio(
    first: tuple[Sequence[float], Sequence[float]], second: tuple[Sequence[float], Sequence[float]], protocol: Protocol
) -> Interval:
    """A ratio over a third program that was measured beside both: (baseline, link) at one time, (link, candidate) at another.

    Each pair is of medians by round. The two are independent, so their distances add up in squares, on a scale of ratios.
    """
    left, right = (paired_ratio(*pair, protocol) for pair in (first, second))
    value = left.value * right.value
    below = math.hypot(*(math.log(part.value / part.low) for part in (left, right)))
    above = math.hypot(*(math.log(part.high / part.value) for part in (left, right)))
    return Interval(value=value, low=value * math.exp(-below), high=value * math.exp(above))


def noise(rounds: Sequence[Sequence[float]]) -> float | None:
    """How far two timings of one program lie apart, 0.01 = 1 %: nineteen of twenty lie nearer.

    Both timings of a simulated comparison are made of the samples' distances from their round's median, drawn anew, and are
    compared as a claim's are: the median over rounds of the ratios of medians. Where rounds hold one sample, distances are
    those within two rounds that follow each other. The same rounds always give the same number. None with too few samples.

    A drawn distance is moved by a normal step as wide as they are usually: a median is at no distance from itself, and of few
    samples it is a large share (a smoothed bootstrap). On samples whose truth is known 94 % and more of all comparisons stay
    within, and so they do where a fifth of the samples is disturbed (`tests/gpu_runner/test_stats.py`).
    """
    groups = [r for r in rounds if len(r) >= 2] or [(*a, *b) for a, b in zip(rounds[0::2], rounds[1::2], strict=False)]
    if len(groups) < 2:
        return None
    apart = [math.log(x / median(group)) * math.sqrt(len(group) / (len(group) - 1)) for group in groups for x in group]
    step = _NORMAL * median([abs(distance) for distance in apart])
    again = random.Random(0)  # noqa: S311 - nothing secret

    def timing(size: int) -> float:
        return median([distance + again.gauss(0.0, step) for distance in again.choices(apart, k=size)])

    found = [abs(median([timing(len(r)) - timing(len(r)) for r in rounds])) for _ in range(SIMULATED)]
    return math.expm1(percentile(found, ALMOST_ALL))


def noise_between(*arms: Sequence[Sequence[float]]) -> float | None:
    """How far timings of two arms lie apart by `noise` alone: what each adds, in squares. Of one arm it is that arm's own.

    Two estimates of what mostly is one machine's restlessness are also steadier than one.
    """
    found = [own for own in map(noise, arms) if own is not None]
    return math.sqrt(sum(own * own for own in found) / len(found)) if found else None


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
