"""The statistics of a timing: robust, paired by round, with an honest interval. Standard library only."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from gpu_runner.contracts import Interval, Protocol, Speed


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


def bootstrap(values: Sequence[float], draws: int, confidence: float, seed: int = 0) -> Interval:
    """The median of `values` with a percentile-bootstrap interval. Values are independent: medians of rounds, not samples."""
    value = median(values)
    if len(values) < 2:
        return Interval(value=value, low=value, high=value)
    generator = random.Random(seed)  # noqa: S311  resampling, not secrecy
    medians = sorted(median(generator.choices(values, k=len(values))) for _ in range(draws))
    tail = (1.0 - confidence) / 2.0
    return Interval(value=value, low=percentile(medians, tail), high=percentile(medians, 1.0 - tail))


def paired_ratio(baseline: Sequence[float], candidate: Sequence[float], protocol: Protocol, seed: int = 0) -> Interval:
    """How many times faster the candidate is: per-round ratios of medians, bootstrapped over rounds."""
    if len(baseline) != len(candidate) or not baseline:
        raise ValueError("rounds must be paired")
    return bootstrap(
        [b / c for b, c in zip(baseline, candidate, strict=True)], protocol.bootstrap_draws, protocol.confidence, seed
    )


def linked_ratio(
    first: tuple[Sequence[float], Sequence[float]],
    second: tuple[Sequence[float], Sequence[float]],
    protocol: Protocol,
    seed: int = 0,
) -> Interval:
    """A ratio over a third program that was measured beside both: (baseline, link) at one time, (link, candidate) at another.

    Each pair is of medians by round; the two are independent, and so are their draws.
    """
    left, right = ([a / b for a, b in zip(*pair, strict=True)] for pair in (first, second))
    if not left or not right:
        raise ValueError("rounds must be paired")
    generator = random.Random(seed)  # noqa: S311  resampling, not secrecy
    drawn = sorted(
        median(generator.choices(left, k=len(left))) * median(generator.choices(right, k=len(right)))
        for _ in range(protocol.bootstrap_draws)
    )
    tail = (1.0 - protocol.confidence) / 2.0
    return Interval(value=median(left) * median(right), low=percentile(drawn, tail), high=percentile(drawn, 1.0 - tail))


def noise(rounds: Sequence[Sequence[float]], protocol: Protocol, seed: int = 0) -> float | None:
    """How far two timings of one program lie apart, 0.01 = 1 %: half the interval of an arm's even against its odd samples.

    A half holds half of the samples, so its medians spread √2 times as much as those of a whole arm. None with too few samples.
    """
    halves = [(median(r[0::2]), median(r[1::2])) for r in rounds if len(r) >= 2]
    if len(halves) < 2:
        return None
    interval = paired_ratio([a for a, _ in halves], [b for _, b in halves], protocol, seed)
    return max(interval.high - 1.0, 1.0 - interval.low, 0.0) / math.sqrt(2.0)


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
