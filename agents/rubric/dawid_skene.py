"""Who errs how, without a known answer: the model of A. P. Dawid and A. M. Skene (Applied Statistics 28, 1979), by EM.

Each item has one true class; each rater has a confusion matrix. A diagnostic: labels are never rewritten by it. It says little
below about five raters with three labels per item.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import exp, log

Label = tuple[Hashable, Hashable, int]  # item, rater, class 0 … k - 1
FEW_RATERS, FEW_LABELS = 5, 3
SMOOTH = 0.5  # of a label, added to each cell: no rater is held to be sure of what was seen once


@dataclass(frozen=True)
class Fit:
    """`prior`: share of each true class. `confusion[rater][true][said]`. `posterior[item]`: chance of each class."""

    prior: list[float]
    confusion: dict[Hashable, list[list[float]]]
    posterior: dict[Hashable, list[float]]

    def accuracy(self, rater: Hashable) -> float:
        """The chance that the rater says the true class, over the classes as they occur."""
        return sum(p * self.confusion[rater][c][c] for c, p in enumerate(self.prior))

    def severity(self, rater: Hashable) -> float:
        """Classes that the rater says above (+) or below (-) the true one, on average."""
        rows = self.confusion[rater]
        return sum(p * q * (said - c) for c, p in enumerate(self.prior) for said, q in enumerate(rows[c]))


@dataclass(frozen=True)
class Rater:
    """A rater's figures with 95 % intervals over items drawn again. `n`: labels."""

    rater: Hashable
    accuracy: tuple[float, float, float]
    severity: tuple[float, float, float]
    n: int


def fit(labels: Sequence[Label], k: int, most: int = 100, tolerance: float = 1e-5) -> Fit:
    """Expectation-maximisation from the shares of labels. ValueError without labels."""
    if not labels:
        raise ValueError("no labels to fit")
    by_item: dict[Hashable, list[tuple[Hashable, int]]] = defaultdict(list)
    for item, rater, said in labels:
        by_item[item].append((rater, said))
    posterior = {item: _shares([said for _, said in some], k) for item, some in by_item.items()}
    prior: list[float] = []
    confusion: dict[Hashable, list[list[float]]] = {}
    for _ in range(most):
        prior = [sum(p[c] for p in posterior.values()) / len(posterior) for c in range(k)]
        confusion = _confusion(by_item, posterior, k)
        logs = {r: [[log(cell) for cell in row] for row in rows] for r, rows in confusion.items()}
        start = [log(max(p, 1e-12)) for p in prior]
        moved = 0.0
        for item, some in by_item.items():
            scores = [start[c] + sum(logs[rater][c][said] for rater, said in some) for c in range(k)]
            top = max(scores)
            raw = [exp(score - top) for score in scores]
            now = [value / sum(raw) for value in raw]
            moved = max(moved, max(abs(a - b) for a, b in zip(now, posterior[item], strict=True)))
            posterior[item] = now
        if moved < tolerance:
            break
    return Fit(prior, confusion, posterior)


def _shares(said: Sequence[int], k: int) -> list[float]:
    return [said.count(c) / len(said) for c in range(k)]


def _confusion(
    by_item: dict[Hashable, list[tuple[Hashable, int]]], posterior: dict[Hashable, list[float]], k: int
) -> dict[Hashable, list[list[float]]]:
    found: dict[Hashable, list[list[float]]] = {}
    for item, some in by_item.items():
        chances = posterior[item]
        for rater, said in some:
            rows = found.setdefault(rater, [[SMOOTH / k] * k for _ in range(k)])
            for c in range(k):
                rows[c][said] += chances[c]
    return {rater: [[cell / sum(row) for cell in row] for row in rows] for rater, rows in found.items()}


def raters(labels: Sequence[Label], k: int, draws: int = 40) -> list[Rater]:
    """Accuracy and severity of each rater, in the order of their names, with intervals. Seconds at a thousand labels."""
    whole = fit(labels, k)
    by_item: dict[Hashable, list[Label]] = defaultdict(list)
    for label in labels:
        by_item[label[0]].append(label)
    items = sorted(by_item, key=str)
    chance = random.Random(9)  # noqa: S311  the same interval for the same labels
    drawn: dict[Hashable, list[tuple[float, float]]] = defaultdict(list)
    for _ in range(draws):
        picked = chance.choices(items, k=len(items))
        labels_of = [((at, item), rater, said) for at, item in enumerate(picked) for _, rater, said in by_item[item]]
        again = fit(labels_of, k, 30, 1e-3)
        for rater in again.confusion:
            drawn[rater].append((again.accuracy(rater), again.severity(rater)))
    counts: dict[Hashable, int] = defaultdict(int)
    for _, rater, _ in labels:
        counts[rater] += 1
    return [
        Rater(
            rater,
            _interval(whole.accuracy(rater), [a for a, _ in drawn[rater]]),
            _interval(whole.severity(rater), [s for _, s in drawn[rater]]),
            counts[rater],
        )
        for rater in sorted(whole.confusion, key=str)
    ]


def _interval(value: float, drawn: Sequence[float]) -> tuple[float, float, float]:
    ordered = sorted(drawn) or [value]
    return value, ordered[int(0.025 * len(ordered))], ordered[min(len(ordered) - 1, int(0.975 * len(ordered)))]


def enough(labels: Sequence[Label]) -> bool:
    """Whether there are raters and labels enough for it to say something."""
    per_item: dict[Hashable, int] = defaultdict(int)
    for item, _, _ in labels:
        per_item[item] += 1
    many = sorted(per_item.values())
    return len({rater for _, rater, _ in labels}) >= FEW_RATERS and bool(many) and many[len(many) // 2] >= FEW_LABELS
