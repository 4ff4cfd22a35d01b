"""Axes: values to percent of a chart's width. Logarithmic ones make equal distances equal ratios."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

_STEPS = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)


def pct(value: float) -> str:
    """A coordinate attribute: "47.1%". Clamped a little outside of the chart, so that hostile numbers draw nothing huge."""
    return f"{min(max(value, -5.0), 105.0):.2f}".rstrip("0").rstrip(".") + "%"


@dataclass(frozen=True)
class LogAxis:
    """Percent of width of positive values between `low` and `high`, on a logarithmic scale."""

    low: float
    high: float

    @classmethod
    def around(cls, values: Iterable[float | None], *, margin: float = 1.12, least: float = 1.3) -> LogAxis:
        """An axis that holds all positive finite values with some margin, and spans at least the ratio `least`."""
        good = [v for v in values if v is not None and v > 0 and math.isfinite(v)] or [1.0]
        low, high = min(good) / margin, max(good) * margin
        if high / low < least:
            middle = math.sqrt(low * high)
            low, high = middle / math.sqrt(least), middle * math.sqrt(least)
        return cls(low, high)

    def at(self, value: float) -> float:
        if value <= 0 or not math.isfinite(value):
            return 0.0
        return 100 * math.log(value / self.low) / math.log(self.high / self.low)

    def ticks(self, at_most: int = 5) -> list[float]:
        """Round values inside of the axis, thinned out until they are few: decades first, then 1-2-5, then finer."""
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        choices: list[list[float]] = []
        for steps in (
            (1.0,),
            (1.0, 3.0),
            (1.0, 2.0, 5.0),
            _STEPS,
            (1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.8, 2.0, 2.5, 3.0, 4.0, 5.0),
        ):
            ticks = [10.0**e * s for e in range(first - 1, last + 1) for s in steps]
            choices.append([t for t in ticks if self.low * 1.02 <= t <= self.high / 1.02])
        fitting = [c for c in choices if 2 <= len(c) <= at_most]
        if fitting:
            return fitting[-1]
        return next((c[:: -(-len(c) // at_most)] for c in choices if c), [])
