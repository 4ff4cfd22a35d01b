"""Numbers carry units, digits that mean something, and a dash where nothing was measured."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stitchweb.core import numbers


def plain(text: str) -> str:
    return text.replace(numbers.NBSP, " ").replace(numbers.THIN, " ")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0886, "88.6 µs"),
        (1.2444, "1.24 ms"),
        (2100, "2.10 s"),
        (0.00001, "10.0 ns"),
        (0, "0 ms"),
        (None, "–"),
        (math.nan, "–"),
    ],
)
def test_durations_choose_a_unit(value: float | None, shown: str) -> None:
    assert plain(numbers.duration(value)) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (9.996, "10.0"),
        (0.0123, "0.0123"),
        (451.4, "451"),
        (2.3e-7, "2.3e-7"),
        (1.5e9, "1.5e9"),
        (4096, "4 100"),
        (None, "–"),
        ("x", "–"),
        (True, "–"),
    ],
)
def test_significant_digits(value: object, shown: str) -> None:
    assert plain(numbers.sig(value)) == shown


@pytest.mark.parametrize(("value", "shown"), [(1.839, "1.84"), (9.999, "10.0"), (12.34, "12.3"), (104.2, "104"), (None, "–")])
def test_ratios_keep_two_decimals_until_ten(value: float | None, shown: str) -> None:
    assert numbers.ratio(value) == shown


def test_an_interval_is_written_with_both_ends() -> None:
    assert numbers.ratio_range(1.79, 1.904) == "1.79 to 1.90"
    assert numbers.ratio_range(None, 1.9) == "–"


def test_a_table_has_one_unit_that_its_smallest_time_needs() -> None:
    factor, unit = numbers.time_unit([0.0886, 4.4, None])
    assert (unit, round(4.4 * factor)) == ("µs", 4400)


@pytest.mark.parametrize(
    ("value", "shown"), [(0, "0 B"), (999, "999 B"), (33_562_624, "33.6 MB"), (999_600, "1.00 MB"), (None, "–")]
)
def test_sizes_count_in_thousands(value: int | None, shown: str) -> None:
    assert plain(numbers.size(value)) == shown


@pytest.mark.parametrize(("value", "shown"), [(3.56, "3.6 s"), (61, "61 s"), (242, "4 min 02 s"), (7500, "2 h 05 min")])
def test_seconds_of_steps(value: float, shown: str) -> None:
    assert plain(numbers.seconds(value)) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(7.26, "0:07.3"), (702.31, "11:42.3"), (59.96, "1:00.0"), (3725, "1:02:05"), (-1, "0:00.0")]
)
def test_the_clock_of_a_run(value: float, shown: str) -> None:
    assert numbers.clock(value) == shown


@example(1.797693134862316e306)
@given(st.floats(allow_nan=True, allow_infinity=True) | st.none() | st.integers() | st.text(max_size=4))
def test_no_value_breaks_a_formatter(value: object) -> None:
    for write in (numbers.sig, numbers.ratio, numbers.duration, numbers.seconds, numbers.clock, numbers.size, numbers.flop,
                  numbers.percent, numbers.tokens, numbers.grouped):  # fmt: skip
        text = write(value)
        assert text
        assert "nan" not in text
        assert "inf" not in text


@given(st.floats(min_value=1e-9, max_value=1e9))
def test_three_digits_are_within_half_a_percent(value: float) -> None:
    shown = float(plain(numbers.sig(value)).replace(" ", ""))
    assert abs(shown - value) <= 0.06 * value if value < 1e-3 or value >= 1e7 else abs(shown - value) <= 0.005 * value + 1e-12
