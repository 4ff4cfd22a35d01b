"""The reports of the H200 in tests/profile, against what the tools themselves print and what was counted by hand."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from gpu_runner.profile import read_profile
from tests.gpu_runner.profile_files import SAMPLES

ALL = [SAMPLES / name for name in ("nsys.sqlite", "ncu_raw.csv", "ncu_details.csv")]


@pytest.fixture(scope="module")
def whole():
    return read_profile([SAMPLES / "nsys.sqlite"])


@pytest.fixture(scope="module")
def steps():
    return read_profile(ALL, range_name="step", warmup=1)


def test_the_sums_of_the_tools_own_statistics_come_out(whole):
    assert [(k["short_name"], k["count"], k["total_ns"]) for k in whole["kernels"]] == [
        ("gemm f32 64x64x8", 20, 3_461_102),
        ("gemm f32 128x128x8", 20, 2_079_404),
        ("reduce_kernel · sum", 20, 101_216),
        ("vectorized_layer_norm_kernel", 20, 86_624),
        ("vectorized_elementwise_kernel · Gelu", 20, 79_329),
    ]
    assert [(c["kind"], c["count"], c["time_ns"]) for c in whole["copies"]] == [
        ("H2D", 26, 8_244_135), ("D2H", 20, 36_673), ("memset", 20, 16_032),
    ]  # fmt: skip
    medians = {k["short_name"]: k["median_ns"] for k in whole["kernels"]}
    assert medians["gemm f32 64x64x8"] == 172_992  # nsys: 172,992.5
    calls = {c["name"]: (c["count"], c["total_ns"]) for c in whole["api"]}
    assert calls["cudaLaunchKernelExC"] == (40, 730_601)


def test_the_report_knows_its_device(whole):
    device = whole["device"]
    assert (device["name"], device["cc"], device["sm_count"], device["mem_bandwidth_Bps"]) == (
        "NVIDIA H200", "90", 132, 4_814_304_000_000,
    )  # fmt: skip
    assert device["peaks_from"] == "report"


def test_the_whole_report_is_mostly_the_first_step_and_nothing_is_sure(whole):
    assert whole["gpu"]["idle_ns"] > 0.9 * whole["window"]["wall_ns"]
    assert {v["confidence"] for v in whole["verdicts"] if v["scope"] == "system"} == {"low"}


def test_the_idle_time_of_nineteen_steps_counted_with_sql(steps):
    """The same sum in another way: from the first step's start to the last one's end, less the union of all rows, by a window
    function over rows in order."""
    with closing(sqlite3.connect(SAMPLES / "nsys.sqlite")) as base:
        start, end = base.execute(
            "select min(start), max(end) from (select start, end from NVTX_EVENTS where text = 'step' order by start"
            " limit 19 offset 1)"
        ).fetchone()
        rows = " union all ".join(f"select start, end from CUPTI_ACTIVITY_KIND_{t}" for t in ("KERNEL", "MEMCPY", "MEMSET"))
        (idle,) = base.execute(
            f"select sum(max(0, start - before)) from (select start, coalesce(max(end) over (order by start rows between"
            f" unbounded preceding and 1 preceding), {start}) as before from ({rows}) where start >= {start} and end <= {end})"
        ).fetchone()
        (last,) = base.execute(f"select max(end) from ({rows}) where end <= {end}").fetchone()
    assert steps["window"]["wall_ns"] == end - start
    assert steps["gpu"]["idle_ns"] == idle + (end - last)
    assert sum(steps["gpu"]["idle_by_cause_ns"].values()) == steps["gpu"]["idle_ns"]


def test_reading_back_a_sum_each_step_is_what_the_gpu_waits_for(steps):
    """38.7 % of the wall time are gaps between a wait and the next enqueue, 6.9 % others that the host was at work in. Without
    waits it would be ahead by then, for a step keeps it for less time than the GPU; but not yet in the first step, 2.2 %."""
    verdict = steps["verdict"]
    assert (verdict["class"], verdict["confidence"]) == ("sync-bound", "high")
    assert verdict["share_pct"] == pytest.approx(100 * 6_958_092 / 15_786_537)
    assert steps["gpu"]["idle_by_cause_ns"]["launch"] == 341_972
    assert verdict["evidence"][0]["shown_in"] == "causes:sync"
    assert steps["advice"][0]["id"] == "no-sync"


def test_kernels_are_judged_as_nvidias_own_rule_judges_them(steps):
    """SOLBottleneck of the details page: "Compute is more heavily utilized than Memory", "grid is too small"."""
    classes = {k["short_name"]: (k["verdict"] or {}).get("class") for k in steps["kernels"]}
    assert classes == {
        "gemm f32 64x64x8": "latency: small grid",
        "gemm f32 128x128x8": "compute-bound",
        "reduce_kernel · sum": None,
        "vectorized_layer_norm_kernel": "latency: small grid",
        "vectorized_elementwise_kernel · Gelu": "latency: small grid",
    }
    product = next(k["counters"] for k in steps["kernels"] if "128x128" in k["short_name"])
    assert product["occupancy_limiter"] == "registers"  # TheoreticalOccupancy: "limited by the number of required registers"
    assert (product["occupancy_theoretical_pct"], product["occupancy_pct"]) == (12.5, 6.25)
    assert product["flop_rate"] / product["flop_peak"] == pytest.approx(0.62, abs=0.005)  # "62% of this device's FP32 peak"


def test_counters_of_a_kernel_that_was_not_profiled_are_null(steps):
    (reduction,) = [k for k in steps["kernels"] if k["counters"] is None]
    assert reduction["short_name"] == "reduce_kernel · sum"
    assert reduction["verdict"] is None


def test_a_typical_step_is_drawn_from_its_rows(steps):
    line = steps["timeline"]
    shown = sum(r["ns"] for s in line["streams"] for r in s["rows"]) + sum(g["ns"] for g in line["gaps"])
    assert shown == line["wall_ns"] == 727_719
    assert len(line["streams"]) == 1
    assert line["left_out"] == 0


def test_the_tree_holds_what_the_gpu_was_busy_with(steps):
    spent = sum(k["total_ns"] for k in steps["kernels"]) + sum(c["time_ns"] for c in steps["copies"])
    assert steps["tree"]["value_ns"] == spent // 19
    assert [child["name"] for child in steps["tree"]["children"]] == ["step"]
