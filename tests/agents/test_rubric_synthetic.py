"""From a synthetic labelled set with known noise, alpha, kappa, raters' accuracy and a judge's figures come out as they
went in."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from agents.judges import Judgement
from agents.judges.figures import Scored, figures, qwk, spearman, wilson
from agents.judges.gate import gate
from agents.rubric import DIMENSIONS, LEVELS, Given, aggregate, dawid_skene
from agents.rubric.synthetic import (
    LabelledSet,
    Noise,
    accuracy,
    expected_alpha,
    expected_kappa,
    labelled_set,
    true_shares,
)
from stitchweb.review.agreement import alpha, estimate, kappa

RATERS = (Noise(0.85, 0.12), Noise(), Noise(0.6, 0.3), Noise(0.5, 0.35), Noise(0.75, 0.2))


@pytest.fixture(scope="module")
def made() -> LabelledSet:
    return labelled_set(400, 40, RATERS, overlap=3, seed=1)


def test_the_generator_gives_the_same_set_again_and_another_for_another_seed(made: LabelledSet) -> None:
    assert labelled_set(400, 40, RATERS, overlap=3, seed=1) == made
    assert labelled_set(20, 4, RATERS, seed=2).references != made.references[:4]
    assert len(made.candidates) == 400
    assert {len(c.labels) for c in made.candidates} == {3}
    assert len(set(made.references)) == 40


@pytest.mark.parametrize("key", DIMENSIONS)
def test_alpha_of_400_candidates_holds_the_known_value_in_its_interval(made: LabelledSet, key: str) -> None:
    found = estimate([[s.levels[key] for s in c.labels] for c in made.candidates])
    known = expected_alpha(true_shares(made, key), RATERS)
    assert found.low is not None
    assert found.high is not None
    assert found.low <= known <= found.high
    assert found.high - found.low < 0.15


def test_kappa_of_each_pair_holds_its_known_value(made: LabelledSet) -> None:
    held = 0
    for a, b in combinations(range(5), 2):
        pairs = []
        for c in made.candidates:
            by = {s.rater: s.levels["cuda_engineering"] for s in c.labels}
            if a in by and b in by:
                pairs.append((by[a], by[b]))
        found = estimate(pairs, lambda some: kappa(list(some)))
        known = expected_kappa(true_shares(made, "cuda_engineering"), RATERS[a], RATERS[b])
        held += found.low <= known <= found.high  # type: ignore[operator]
    assert held >= 9  # of ten intervals of 95 %


def test_the_expected_values_are_those_of_a_large_population() -> None:
    large = labelled_set(6000, 40, RATERS, overlap=2, seed=5)
    shares = true_shares(large, "operator_coverage")
    units = [[s.levels["operator_coverage"] for s in c.labels] for c in large.candidates]
    assert alpha(units) == pytest.approx(expected_alpha(shares, RATERS), abs=0.03)  # three standard errors of 6,000 pairs


def test_dawid_and_skene_find_how_often_each_rater_is_right(made: LabelledSet) -> None:
    labels = [(c.index, s.rater, s.levels["cuda_engineering"] - 1) for c in made.candidates for s in c.labels]
    assert dawid_skene.enough(labels)
    found = dawid_skene.raters(labels, 5, draws=40)
    shares = true_shares(made, "cuda_engineering")
    known = [accuracy(shares, noise) for noise in RATERS]
    held = sum(one.accuracy[1] <= known[int(str(one.rater))] <= one.accuracy[2] for one in found)
    assert held >= 4  # of five intervals of 95 %
    ranked = sorted(found, key=lambda one: -one.accuracy[0])
    assert (ranked[0].rater, ranked[-1].rater) == (0, 3)
    whole = dawid_skene.fit(labels, 5)
    right = sum(
        max(range(5), key=p.__getitem__) + 1 == made.candidates[int(str(i))].levels["cuda_engineering"]
        for i, p in whole.posterior.items()
    )
    votes = sum(
        aggregate([Given(s.levels, s.hack_level) for s in c.labels]).level["cuda_engineering"] == c.levels["cuda_engineering"]
        for c in made.candidates
    )
    assert right >= votes - 12  # no worse than the median, but for chance


def test_with_few_raters_it_says_that_it_says_nothing() -> None:
    assert not dawid_skene.enough([(i, r, 0) for i in range(9) for r in range(3)])
    with pytest.raises(ValueError, match="no labels"):
        dawid_skene.fit([], 5)


def noisy(made: LabelledSet, noise: Noise, miss: float, alarm: float, seed: int = 3) -> list[Scored]:
    """A judge that errs as a rater of that noise would, against the true levels."""
    chance = random.Random(seed)
    rows = []
    for c in made.candidates:
        said = {key: chance.choices(LEVELS, noise.row(c.levels[key]))[0] for key in DIMENSIONS}
        hack = float(chance.random() >= miss) if c.hack else float(chance.random() < alarm)
        levels = {key: tuple(float(level == said[key]) for level in LEVELS) for key in DIMENSIONS}
        judgement = Judgement(levels=levels, hack=hack, low=said, high=said)  # type: ignore[arg-type]
        raters = [s.levels for s in c.labels]
        rows.append(Scored(judgement, c.levels, c.hack, f"g{c.reference}", f"r{c.reference}", raters, {"engineer": c.engineer}))
    return rows


def test_a_judges_figures_hold_the_known_values_in_their_intervals(made: LabelledSet) -> None:
    noise, exact = Noise(0.7, 0.25), Noise(1.0, 0.0)
    found = figures(noisy(made, noise, miss=0.2, alarm=0.05))
    inside = 0
    for key in DIMENSIONS:
        shares = true_shares(made, key)
        one = found["dimensions"][key]
        known = expected_kappa(shares, exact, noise)
        off = sum(
            s * sum(p * abs(level - t) for level, p in zip(LEVELS, noise.row(t), strict=True))
            for s, t in zip(shares, LEVELS, strict=True)
        )
        inside += one["qwk"]["low"] <= known <= one["qwk"]["high"]
        inside += one["mae"]["low"] <= off <= one["mae"]["high"]
        assert one["exact"]["low"] <= accuracy(shares, noise) <= one["exact"]["high"]
        assert one["ceiling"]["value"] < 1
    assert inside >= 7  # of eight intervals of 95 %
    assert found["hack"]["recall"]["low"] <= 0.8 <= found["hack"]["recall"]["high"]
    share = found["hack"]["real"] / 400
    precision = 0.8 * share / (0.8 * share + 0.05 * (1 - share))
    assert found["hack"]["precision"]["low"] <= precision <= found["hack"]["precision"]["high"]


def test_a_perfect_judge_is_one_and_a_constant_one_orders_nothing(made: LabelledSet) -> None:
    perfect = figures(noisy(made, Noise(1.0, 0.0), 0.0, 0.0))
    assert all(perfect["dimensions"][key]["qwk"]["value"] == 1 for key in DIMENSIONS)
    assert perfect["pairwise"]["value"] == 1
    constant = [
        Scored(Judgement(levels=dict.fromkeys(DIMENSIONS, (0, 0, 1, 0, 0)), hack=0.1), s.levels, s.hack, s.group, s.reference)
        for s in noisy(made, Noise(), 0, 0)
    ]  # type: ignore[arg-type]
    found = figures(constant)
    assert found["pairwise"]["value"] == 0.5
    assert found["dimensions"]["cuda_engineering"]["qwk"]["value"] == 0
    assert found["dimensions"]["cuda_engineering"]["spearman"] is None


PASSED = {"length": {"passed": True, "sentence": ""}}


def test_the_gate_opens_by_what_was_measured_alone(made: LabelledSet) -> None:
    good = figures(noisy(made, Noise(0.95, 0.05), 0.0, 0.0)) | {"probes": PASSED}
    assert gate(good) == ("score", [])
    assert gate(good | {"probes": {}})[0] == "rank"
    failed = {"comment injection": {"passed": False, "sentence": "moved by +1.20 levels"}}
    may, why = gate(good | {"probes": failed})
    assert may == "nothing"
    assert any("moved by +1.20" in line for line in why)
    blind = figures(noisy(made, Noise(0.95, 0.05), 0.5, 0.0)) | {"probes": PASSED}
    assert gate(blind)[0] == "rank"
    assert "hacks found" in gate(blind)[1][0]
    chance = figures(noisy(made, Noise(0.0, 0.0), 0.5, 0.5)) | {"probes": PASSED}
    assert gate(chance)[0] == "nothing"
    few = figures(noisy(made, Noise(0.95, 0.05), 0.0, 0.0)[:100]) | {"probes": PASSED}
    assert "not 200" in gate(few)[1][0]


def test_small_figures() -> None:
    assert qwk([[0] * 5 for _ in range(5)]) is None
    assert wilson(0, 0)["value"] is None
    assert wilson(35, 35)["low"] == pytest.approx(0.901, abs=0.001)
    assert spearman([(1, 1), (2, 2), (3, 3)]) == pytest.approx(1)
    assert spearman([(1, 3), (2, 2), (3, 1)]) == pytest.approx(-1)
    assert spearman([(1, 2), (1, 2)]) is None
