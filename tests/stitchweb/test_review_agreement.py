"""Agreement as published: Krippendorff's own example, kappa against its definition written in another way."""

from __future__ import annotations

import random
from itertools import product

import pytest

from stitchweb.review.agreement import alpha, estimate, kappa

# Four observers, twelve units; ordinal alpha 0.815 (Krippendorff 2011, section C).
OBSERVERS = ["123321412...", "1233224125.3", ".3332342251.", "12332441251."]


def units() -> list[list[int]]:
    return [[int(level) for level in column if level != "."] for column in zip(*OBSERVERS, strict=True)]


def test_alpha_is_that_of_the_published_example() -> None:
    assert alpha(units()) == pytest.approx(0.815, abs=0.0005)


def test_alpha_is_one_when_all_agree_and_undefined_when_nothing_could_differ() -> None:
    assert alpha([[1, 1], [3, 3], [5, 5]]) == 1
    assert alpha([[3, 3], [3, 3]]) is None
    assert alpha([]) is None
    assert alpha([[4], [2]]) is None


def test_kappa_is_its_definition_by_matrices() -> None:
    chance = random.Random(3)
    pairs = [(a, min(5, max(1, a + chance.choice((-1, 0, 0, 1))))) for a in chance.choices(range(1, 6), k=80)]
    grid = dict.fromkeys(product(range(1, 6), repeat=2), 0)
    for cell in pairs:
        grid[cell] += 1
    rows = {a: sum(grid[a, b] for b in range(1, 6)) for a in range(1, 6)}
    columns = {b: sum(grid[a, b] for a in range(1, 6)) for b in range(1, 6)}
    weight = {cell: (cell[0] - cell[1]) ** 2 / 16 for cell in grid}
    above = sum(weight[c] * grid[c] for c in grid)
    below = sum(weight[a, b] * rows[a] * columns[b] / 80 for a, b in grid)
    assert kappa(pairs) == pytest.approx(1 - above / below)
    assert kappa([(2, 2), (2, 2)]) is None


def bounds(units: list[list[int]]) -> tuple[float, float, float]:
    found = estimate(units)
    assert found.low is not None
    assert found.value is not None
    assert found.high is not None
    return found.low, found.value, found.high


def test_an_interval_holds_its_value_narrows_with_items_and_says_when_there_are_few() -> None:
    low, value, high = bounds(units())
    assert low <= value <= high
    assert estimate(units()).few
    less, _, more = bounds(units() * 8)
    assert more - less < high - low
    assert not estimate(units() * 8).few
    assert estimate([[4], [3]]).value is None
