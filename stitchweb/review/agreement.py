"""How far people agree, corrected for chance: Krippendorff's alpha on ordinal levels, quadratic weighted kappa of two people.

Pure functions over levels 1 to 5. "Cannot tell" is no level and does not enter.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from typing import Any

from stitchweb.review.rubric import LEVELS

DRAWS = 400
FEW = 50  # items with two labels, below which an interval says little

Unit = Sequence[int]  # the levels that one item got


@dataclass(frozen=True)
class Estimate:
    """A coefficient with its 95 % interval over resampled items. `value` None: undefined, as all labels are one level or
    no item has two. `n`: items with two labels or more."""

    value: float | None
    low: float | None
    high: float | None
    n: int

    @property
    def few(self) -> bool:
        return self.n < FEW


def alpha(units: Sequence[Unit]) -> float | None:
    """Krippendorff's alpha, ordinal (K. Krippendorff, Computing Krippendorff's Alpha-Reliability, 2011)."""
    weights: dict[tuple[int, int], float] = {}
    for unit, times in Counter(tuple(sorted(unit)) for unit in units).items():
        for pair in permutations(unit, 2):
            weights[pair] = weights.get(pair, 0.0) + times / (len(unit) - 1)
    totals = {c: sum(w for (first, _), w in weights.items() if first == c) for c in LEVELS}
    n = sum(totals.values())
    if n <= 1:
        return None
    expected = sum(totals[c] * totals[k] * _apart(c, k, totals) for c, k in product(LEVELS, LEVELS)) / (n - 1)
    observed = sum(w * _apart(c, k, totals) for (c, k), w in weights.items())
    return None if expected == 0 else 1 - observed / expected


def _apart(c: int, k: int, totals: dict[int, float]) -> float:
    """The squared ordinal distance of two levels: how many labels lie between them."""
    low, high = min(c, k), max(c, k)
    return (sum(totals[g] for g in range(low, high + 1)) - (totals[c] + totals[k]) / 2) ** 2


def kappa(pairs: Sequence[tuple[int, int]]) -> float | None:
    """Quadratic weighted kappa of two people over the items that both scored (J. Cohen, Weighted kappa, 1968)."""
    if not pairs:
        return None
    first, second = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    observed = sum((a - b) ** 2 for a, b in pairs) / len(pairs)
    expected = sum(first[a] * second[b] * (a - b) ** 2 for a, b in product(first, second)) / len(pairs) ** 2
    return None if expected == 0 else 1 - observed / expected


def estimate(units: Sequence[Unit], of: Callable[[Sequence[Any]], float | None] = alpha) -> Estimate:
    """The coefficient of these items, with the 2.5th and 97.5th percentile over items drawn again with replacement."""
    some = [unit for unit in units if len(unit) > 1]
    value = of(some)
    if value is None:
        return Estimate(None, None, None, len(some))
    chance = random.Random(5)  # noqa: S311  the same interval for the same labels
    drawn = sorted(v for _ in range(DRAWS) if (v := of(chance.choices(some, k=len(some)))) is not None)
    if len(drawn) < DRAWS / 2:
        return Estimate(value, None, None, len(some))
    return Estimate(value, drawn[int(0.025 * len(drawn))], drawn[int(0.975 * len(drawn))], len(some))
