"""Charts say their numbers, stay inside their boxes and never trust a name."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_runner.contracts import Interval, TimingReport
from stitchweb.runs import charts
from stitchweb.runs.charts.lanes import Node
from tests.stitchweb.markup import well_formed
from tests.stitchweb.parts_for_tests import full_timing

POSITIVE = st.floats(min_value=1e-6, max_value=1e6)


def percents(svg: str) -> list[float]:
    return [float(p) for p in re.findall(r'="(-?[\d.]+)%"', svg)]


@given(POSITIVE, st.floats(min_value=1, max_value=3), st.lists(POSITIVE, max_size=4))
def test_an_interval_stays_inside_of_its_axis_and_names_its_bounds(value: float, wide: float, others: list[float]) -> None:
    shown = Interval(value=value, low=value / wide, high=value * wide)
    svg = charts.interval(shown, charts.LogAxis.around([1.0, shown.low, shown.high, *others]), predicted=1.2)
    well_formed(svg)
    assert all(-5 <= p <= 105 for p in percents(svg))
    assert "95 percent interval" in svg
    assert "predicted 1.20 times" in svg


def test_equal_ratios_are_equal_distances() -> None:
    axis = charts.LogAxis(1, 16)
    assert axis.at(4) - axis.at(2) == pytest.approx(axis.at(8) - axis.at(4))


@given(st.floats(min_value=1e-5, max_value=1e3), st.floats(min_value=1.01, max_value=1e4))
def test_axes_have_few_ticks_inside_of_them(low: float, span: float) -> None:
    axis = charts.LogAxis(low, low * span)
    ticks = axis.ticks()
    assert len(ticks) <= 5
    assert all(axis.low <= t <= axis.high for t in ticks)


def test_timing_rows_put_the_candidate_last_and_say_why_an_arm_is_missing() -> None:
    rows, head, scale, unit = charts.timing_tracks(TimingReport.model_validate(full_timing(2.18)))
    assert [r.arm for r in rows][-1] == "candidate"
    assert next(r for r in rows if r.arm == "reduce-overhead").error.startswith("the same as default")
    assert unit == "ms"
    assert "floor 1.57 ms" in head
    assert "hatched" in rows[0].svg
    well_formed(scale)


@given(st.lists(st.integers(0, 12), max_size=14))
def test_every_candidate_has_a_cell_and_no_two_edges_share_a_place(parents: list[int]) -> None:
    nodes = [Node(f"c{i}", f"c{p}" if p < i else None) for i, p in enumerate(parents)]
    cells = charts.lanes(nodes)
    assert list(cells) == [n.id for n in nodes]
    for cell in cells.values():
        well_formed(cell)


def test_a_chain_of_candidates_stays_in_one_lane() -> None:
    cells = charts.lanes([Node("c1", None), Node("c2", "c1"), Node("c3", "c2")])
    assert {re.search(r'cx="(\d+)"', c).group(1) for c in cells.values()} == {"12"}  # type: ignore[union-attr]


def test_fast_p_falls_from_the_share_that_is_faster_to_nothing() -> None:
    svg = charts.fast_p_curve([1.2, 2.5], 4, "fast p")
    well_formed(svg)
    assert 'y1="50%"' in svg
    assert 'y1="75%"' in svg


@given(st.floats(0.05, 20.0), st.floats(1.05, 400.0))
def test_labels_of_a_ratio_axis_do_not_touch(low: float, span: float) -> None:
    places = [float(x) for x in re.findall(r'x="([\d.]+)%"', charts.interval_axis(charts.LogAxis(low, low * span)))]
    assert all(b - a >= 17.9 for a, b in pairwise(places))
