"""The statistics on samples whose truth is known."""

from __future__ import annotations

import math
import random
from itertools import chain

import pytest

from gpu_runner.contracts import PROTOCOLS, Interval, Speed
from gpu_runner.stats import agree, interval, linked_ratio, median, noise, noise_between, paired_ratio, percentile, speed_word

STRICT = PROTOCOLS["strict"]


def a_run(generator: random.Random, rounds: int, true_ratio: float, jitter: float = 0.02, drift: float = 0.1):
    """Rounds of one sample of a baseline and of a program `true_ratio` times faster. The machine drifts for both alike from
    round to round; each has noise of its own."""
    baseline, candidate = [], []
    for _ in range(rounds):
        machine = 1.0 + drift * generator.random()
        baseline.append([machine * (1.0 + generator.gauss(0, jitter))])
        candidate.append([machine / true_ratio * (1.0 + generator.gauss(0, jitter))])
    return baseline, candidate


def test_a_true_gain_of_ten_percent_is_found_nearly_always():
    generator = random.Random(1)
    words = [speed_word(paired_ratio(*a_run(generator, 10, 1.10), STRICT), STRICT) for _ in range(60)]
    assert words.count(Speed.FASTER) >= 54


def test_a_program_against_itself_is_hardly_ever_called_faster():
    generator = random.Random(2)
    words = [speed_word(paired_ratio(*a_run(generator, 10, 1.0), STRICT), STRICT) for _ in range(100)]
    assert words.count(Speed.FASTER) <= 2
    assert words.count(Speed.SLOWER) <= 2


def test_a_gain_of_two_percent_is_not_called_faster():
    generator = random.Random(3)
    words = [speed_word(paired_ratio(*a_run(generator, 10, 1.02, jitter=0.003), STRICT), STRICT) for _ in range(40)]
    assert words.count(Speed.FASTER) == 0


def test_a_planted_slowdown_is_called_slower():
    generator = random.Random(4)
    words = [speed_word(paired_ratio(*a_run(generator, 10, 1 / 1.2), STRICT), STRICT) for _ in range(40)]
    assert words.count(Speed.SLOWER) >= 38


@pytest.mark.parametrize("rounds", [6, 10, 18])
@pytest.mark.parametrize("heavy", [False, True])
def test_the_interval_covers_the_truth_as_often_as_it_says_whatever_the_distribution(rounds, heavy):
    generator = random.Random(5)
    inside = 0
    for _ in range(400):
        values = [
            1.3 * math.exp(generator.gauss(0, 0.02)) ** (generator.choice((1, 1, 1, 30)) if heavy else 1) for _ in range(rounds)
        ]
        seen = interval(values, 0.95)
        inside += seen.low <= 1.3 <= seen.high
    assert inside >= 0.93 * 400


@pytest.mark.parametrize(("samples", "rounds"), [(3, 6), (5, 10), (5, 20)])
@pytest.mark.parametrize("common", [0.0, 0.01])
def test_the_interval_of_a_ratio_covers_the_truth_also_where_rounds_differ(samples: int, rounds: int, common: float) -> None:
    """Each ratio lies 1.4 % off by itself; `common`: what all of a round lie off together."""
    generator = random.Random(7)
    inside, wide = 0, []
    for _ in range(200):
        shift = [math.exp(generator.gauss(0, common)) for _ in range(rounds)]
        one, other = ([[math.exp(generator.gauss(0, 0.01)) for _ in range(samples)] for _ in range(rounds)] for _ in range(2))
        ratio = paired_ratio([[x * at for x in some] for some, at in zip(one, shift, strict=True)], other, STRICT)
        inside += ratio.low <= 1.0 <= ratio.high
        wide.append(ratio.high - ratio.low)
    assert inside >= 0.9 * 200
    assert median(wide) < 8 * math.hypot(common, 0.018) / math.sqrt(rounds)  # and is of use


def test_rounds_that_differ_more_than_their_samples_widen_the_interval() -> None:
    alike = [[1.00, 1.01, 0.99, 1.02, 0.98]] * 10
    ones = [[1.0] * 5] * 10
    apart = [[x * at for x in some] for some, at in zip(alike, [0.95, 1.05] * 5, strict=True)]
    near, far = (paired_ratio(rounds, ones, STRICT) for rounds in (alike, apart))
    assert near.high - near.low < 0.03
    assert far.low < 0.95
    assert far.high > 1.05


def test_one_disturbed_round_does_not_move_the_median():
    baseline = [[1.0, 1.0]] * 9 + [[50.0, 50.0]]
    assert paired_ratio(baseline, [[1.0, 1.0]] * 10, STRICT).value == 1.0


def test_samples_that_were_taken_together_are_compared_with_each_other():
    """The machine gets slower within each round; a median of either arm lies anywhere on the way."""
    slower = [1.0, 1.5, 2.0, 9.0, 10.0]
    baseline = [[1.1 * machine for machine in slower]] * 6
    candidate = [[*slower[:2], 3.0 * slower[2], *slower[3:]]] * 6  # one of each five is disturbed
    ratio = paired_ratio(baseline, candidate, STRICT)
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((1.1, 1.1, 1.1))
    assert median(baseline[0]) / median(candidate[0]) < 0.5


def test_with_few_rounds_the_interval_is_all_of_them_and_nothing_raises():
    assert interval([2.0], 0.95) == Interval(value=2.0, low=2.0, high=2.0)
    assert interval([3.0, 1.0, 2.0, 4.0, 5.0], 0.95) == Interval(value=3.0, low=1.0, high=5.0)
    assert interval([float(i) for i in range(1, 11)], 0.95) == Interval(value=5.5, low=2.0, high=9.0)
    with pytest.raises(ValueError):
        median([])
    with pytest.raises(ValueError):
        paired_ratio([[1.0]], [[1.0], [2.0]], STRICT)
    with pytest.raises(ValueError):
        paired_ratio([[1.0], [1.0]], [[1.0], [2.0, 2.0]], STRICT)


def test_percentiles_interpolate():
    assert percentile([0.0, 1.0], 0.25) == 0.25
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0


def test_what_slows_both_arms_alike_is_no_noise_between_them() -> None:
    quiet = [[100.0, 100.1, 100.2] for _ in range(8)]
    loud = [[100.0, 110.0, 104.0], [96.0, 104.0, 101.0]] * 4
    alone, both = noise(loud), noise_between(loud, [[0.9 * sample for sample in some] for some in loud])
    assert both == pytest.approx(0.0, abs=1e-9)
    between = noise_between(quiet, loud)
    assert alone is not None
    assert between is not None
    assert 0.01 < between < alone  # which is of two such arms
    assert noise_between([[1.0]], [[1.0]]) is None


@pytest.mark.parametrize(("samples", "rounds"), [(3, 6), (5, 10), (5, 30), (1, 12)])
@pytest.mark.parametrize("disturbed", [0.0, 0.2])
def test_comparisons_of_a_program_with_itself_stay_within_the_noise(samples: int, rounds: int, disturbed: float) -> None:
    """And it is not many times what they differ by, where nothing disturbs."""
    generator = random.Random(6)

    def timing() -> list[list[float]]:
        def sample() -> float:
            return (1.0 + generator.gauss(0, 0.01)) * (1.3 if generator.random() < disturbed else 1.0)

        return [[sample() for _ in range(samples)] for _ in range(rounds)]

    found, between, apart, medians = [], [], [], []
    for _ in range(60):
        one, other = timing(), timing()
        found.append(noise(one) or 0.0)
        between.append(noise_between(one, other) or 0.0)
        apart.append(abs(paired_ratio(one, other, STRICT).value - 1.0))
        medians.append(abs(median([*chain(*one)]) / median([*chain(*other)]) - 1.0))
    for distances, estimates in ((apart, between), (medians, found)):
        inside = sum(distance <= own for distance, own in zip(distances, estimates, strict=True))
        assert inside >= 0.85 * len(estimates)
        if not disturbed:
            assert median(estimates) <= 4 * percentile(distances, 0.68)


def test_noise_grows_with_the_machine_and_is_a_pure_function() -> None:
    generator = random.Random(6)
    quiet = [[1.0 + generator.gauss(0, 0.001) for _ in range(10)] for _ in range(10)]
    loud = [[1.0 + generator.gauss(0, 0.1) for _ in range(10)] for _ in range(10)]
    assert noise(quiet) < 0.005 < noise(loud)  # type: ignore[operator]
    assert noise(loud) == noise(loud)
    single = [[[first] for first, *_ in rounds] for rounds in (quiet, loud)]
    assert noise(single[0]) < 0.005 < noise(single[1])  # type: ignore[operator]
    assert noise([[1.0]]) is None


def test_two_measurements_agree_when_their_intervals_nearly_touch():
    first = Interval(value=2.0, low=1.9, high=2.1)
    assert agree(first, Interval(value=2.15, low=2.12, high=2.2), 0.03)
    assert not agree(first, Interval(value=3.0, low=2.9, high=3.1), 0.03)


@pytest.mark.parametrize(
    ("ratio", "word"),
    [
        (Interval(value=1.2, low=1.1, high=1.3), Speed.FASTER),
        (Interval(value=1.2, low=0.99, high=1.3), Speed.NOT_DISTINGUISHABLE),
        (Interval(value=1.04, low=1.03, high=1.05), Speed.NOT_DISTINGUISHABLE),
        (Interval(value=0.8, low=0.7, high=0.9), Speed.SLOWER),
    ],
)
def test_words_follow_the_rule(ratio, word):
    assert speed_word(ratio, STRICT) is word


def test_a_ratio_over_a_third_program_is_the_product_of_two_and_as_uncertain_as_both():
    generator = random.Random(5)
    covered = 0
    for _ in range(60):
        compiled_over_eager, eager_over_candidate = a_run(generator, 10, 1 / 1.3), a_run(generator, 10, 2.0)
        link = compiled_over_eager[1], compiled_over_eager[0]  # the baseline first: it takes 1 / 1.3 of eager's time
        ratio = linked_ratio(link, eager_over_candidate, STRICT)
        parts = [paired_ratio(*pair, STRICT) for pair in (link, eager_over_candidate)]
        assert ratio.value == pytest.approx(parts[0].value * parts[1].value)
        assert ratio.high - ratio.low > max(part.high - part.low for part in parts) * 0.9
        covered += ratio.low <= 2.0 * 1.3 <= ratio.high
    assert covered >= 54
    with pytest.raises(ValueError, match="paired"):
        linked_ratio(([], []), ([[1.0]], [[1.0]]), STRICT)
