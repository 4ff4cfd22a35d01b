"""The roofline: each point against the roof above it, and which roofs there are."""

from __future__ import annotations

from stitchweb.runs import pictures
from tests.stitchweb.test_render_pictures import h200


def test_a_point_lies_under_the_roof_of_its_own_type_and_others_are_not_drawn():
    device = {"peak_flops": {"float32": 50e12, "float16": 700e12, "bfloat16": 690e12}, "mem_bandwidth_Bps": 4e12}
    target = {"flops": 7e12, "bytes": 1e9, "forward_ns": 20_000_000, "role": "reference"}
    summary = {"device": device | {"peaks_from": "measured"}, "target": target | {"flop_dtype": "float16"}, "kernels": []}
    picture = pictures.roof(summary, prefix="c1")
    assert picture is not None
    assert picture.rows[0][3] == "50\u00a0%"  # 350 of 700 TFLOP/s
    assert ("float16, " in picture.svg, "bfloat16" in picture.svg, "float32" in picture.svg) == (True, False, False)
    summary["target"]["flop_dtype"] = "float64"  # which was not measured
    picture = pictures.roof(summary, prefix="c1")
    assert picture is not None
    assert picture.rows[0][3] == "700\u00a0%"
    assert "float32, " in picture.svg


def test_a_point_of_the_roofline_is_read_against_the_roof_above_it():
    picture = pictures.roof(h200(), prefix="c1")
    assert picture is not None
    assert picture.rows[1] == (
        "2. gemm f32 128x128x8",
        "41.4\u00a0TFLOP/s",
        "224\u00a0FLOP/B".replace("\u00a0", " "),
        "63\u00a0%",
        "measured",
    )
    assert "roofs from the report" in picture.note


def test_ceilings_measured_on_the_device_go_before_the_reports():
    device = {"peak_flops": {"float32": 50e12}, "mem_bandwidth_Bps": 4e12, "peaks_from": "measured"}
    picture = pictures.roof({**h200(), "device": device}, prefix="c1")
    assert picture is not None
    assert "float32, 50.0\u00a0TFLOP/s" in picture.svg
    assert "measured on this device" in picture.note


def test_without_counters_the_whole_forward_is_a_point_and_an_estimate():
    device = {"peak_flops": {"float32": 1e11}, "mem_bandwidth_Bps": 2e10, "peaks_from": "measured"}
    sides = [
        {"device": device, "target": {"role": role, "flops": 10**9, "bytes": 10**8, "forward_ns": ns}}
        for role, ns in (("reference", 50_000_000), ("candidate", 25_000_000))
    ]
    picture = pictures.roof(sides[1], prefix="c1", before=sides[0])
    assert picture is not None
    assert picture.rows == (
        (
            "1. whole forward of the candidate",
            "40.0\u00a0GFLOP/s",
            "10.0 FLOP/B",
            "40\u00a0%",
            "estimated, before 20.0\u00a0GFLOP/s",
        ),
    )
    assert picture.svg.count('class="was"') == 1
