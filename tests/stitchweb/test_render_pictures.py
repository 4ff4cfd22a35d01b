"""Pictures of profiles: what they say, that they stay inside their boxes, and that no name or number breaks them."""

from __future__ import annotations

import math
import re
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.template.loader import render_to_string
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_runner.profile import read_profile
from gpu_runner.profile.compare import compare
from stitchweb.runs import pictures
from tests.gpu_runner.profile_files import SAMPLES
from tests.stitchweb.markup import well_formed

STATIC = Path(__file__).resolve().parents[2] / "static" / "css"
HOSTILE = "<script>alert(1)</script>\"'&{lambda()#1} größe"


@cache
def h200() -> dict[str, Any]:
    reports = [SAMPLES / name for name in ("nsys.sqlite", "ncu_raw.csv", "ncu_details.csv")]
    return read_profile(reports, range_name="step", warmup=1)


def every(summary: dict[str, Any], **options: Any) -> list[pictures.Picture | None]:
    """All pictures of a summary; those of its kernels have prefixes of their own."""
    drawn = [
        pictures.causes([("reference", summary), ("c1", summary)], prefix="c1"),
        pictures.timeline(summary.get("timeline"), prefix="c1"),
        pictures.flame(
            summary.get("tree"), prefix="c1", title="Where the time goes", link=lambda path: f"?focus={path}", **options
        ),
        pictures.roof(summary, prefix="c1", before=summary),
    ]
    kernels = summary.get("kernels")
    for n, kernel in enumerate(k for k in (kernels if isinstance(kernels, list) else ()) if isinstance(k, dict)):
        drawn += [draw(kernel, prefix=f"c1-{n}") for draw in (pictures.speed_of_light, pictures.occupancy, pictures.stalls)]
    return drawn


def shown(summary: dict[str, Any], **options: Any) -> list[pictures.Picture]:
    return [picture for picture in every(summary, **options) if picture is not None]


def html(picture: pictures.Picture) -> str:
    return render_to_string("pictures/picture.html", {"picture": picture, "prefix": "c1"})


def test_the_h200s_reports_give_every_picture():
    drawn = shown(h200())
    assert [p.id for p in drawn[:4]] == ["causes", "timeline", "flame", "roofline"]
    assert sorted(p.id for p in drawn[4:]) == ["occupancy"] * 4 + ["sol"] * 4 + ["stalls"] * 4


def test_every_picture_says_in_its_label_and_in_its_table_what_it_shows():
    for picture in shown(h200()):
        well_formed(html(picture))
        # A picture with links in it is a group: what is inside of an image is hidden from those who do not see it.
        assert re.findall(r'role="(\w+)"', picture.svg) == ["group" if "href=" in picture.svg else "img"]
        label = re.search(r'aria-label="([^"]{20,})"', picture.svg)
        assert label, picture.id
        assert picture.rows
        assert all(len(row) == len(picture.columns) for row in picture.rows)
        assert "style=" not in picture.svg
        assert "<script" not in picture.svg


def test_the_bar_of_causes_holds_the_shares_that_were_measured():
    picture = pictures.causes([("eager", h200())], prefix="c1")
    assert picture is not None
    assert ("eager", "idle: host waited for the GPU", "366\u00a0µs", "44.1\u00a0%") in picture.rows
    widths = [float(w) for w in re.findall(r'<rect class="c [^>]*width="([\d.]+)%"', picture.svg)]
    assert sum(widths) == pytest.approx(100, abs=0.1)


def test_evidence_points_at_a_part_that_is_there():
    summary = h200()
    drawn = "".join(p.svg for p in shown(summary))
    table = pictures.kernel_table(summary, prefix="c1")
    ids = set(re.findall(r'id="([^"]+)"', drawn)) | {row.id for row in table.rows}
    for verdict in summary["verdicts"]:
        place = next((n for n, k in enumerate(summary["kernels"]) if k["key"] == verdict.get("kernel")), None)
        for fact in verdict["evidence"]:
            name = fact["shown_in"].split(":")[0]
            prefix = f"c1-{place}" if name in ("sol", "occupancy", "stalls") else "c1"
            assert pictures.anchor(prefix, fact["shown_in"]) in ids, fact


def test_no_two_elements_share_an_id():
    found = re.findall(
        r' id="([^"]+)"', "".join(p.svg for p in shown(h200()) if p.id in ("causes", "timeline", "roofline", "flame"))
    )
    own = [i for i in found if not re.search(r"-[hf]-[a-z]+$", i)]
    assert len(own) == len(set(own))


def hostile_summary() -> dict[str, Any]:
    kernel = {"key": HOSTILE, "name": HOSTILE, "short_name": HOSTILE, "count": 3, "total_ns": 5000, "median_ns": 100,
              "share_pct": 50.0,
              "counters": {"compute_sol_pct": 50.0, "memory_sol_pct": 10.0, "intensity": 3.0, "flop_rate": 1e12,
                           "flop_dtype": HOSTILE,
                           "flop_peak": 2e12, "dram_peak_Bps": 1e12, "occupancy_limits": {"registers": 2},
                           "occupancy_limiter": HOSTILE,
                           "stalls": [{"reason": HOSTILE, "share_pct": 40.0, "cycles": 2.0}]}}  # fmt: skip
    return {
        "target": {"iterations": 2},
        "device": {"peak_flops": {}},
        "gpu": {"busy_ns": 10, "kernel_busy_ns": 10, "copy_exposed_ns": 0, "idle_by_cause_ns": {"sync": 5, HOSTILE: 7}},
        "timeline": {
            "wall_ns": 100, "gaps": [{"cause": HOSTILE, "start_ns": 0, "ns": 50, "before": HOSTILE}],
            "streams": [{"stream": HOSTILE, "rows": [{"name": HOSTILE, "kind": HOSTILE, "start_ns": 50, "ns": 50}]}],
            "calls": [{"name": HOSTILE, "start_ns": 0, "ns": 50, "blocking": True}],
        },
        "tree": {"name": HOSTILE, "kind": HOSTILE, "value_ns": 10, "full_name": HOSTILE,
                 "children": [{"name": HOSTILE, "kind": "kernel", "value_ns": 10, "children": []}]},
        "kernels": [kernel],
    }  # fmt: skip


def test_names_are_only_ever_text():
    summary = hostile_summary()
    drawn = shown(summary)
    assert len(drawn) == 7
    pages = {picture.id: html(picture) for picture in drawn}
    pages["kernels"] = render_to_string("pictures/kernels.html", {"table": pictures.kernel_table(summary, prefix="c1")})
    for name, page in pages.items():
        well_formed(page)
        assert "<script" not in page
        assert ("alert(1)" in unescape(page)) == (name != "causes")  # a cause that is none of ours is not shown


NUMBER = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True), st.integers(-(10**30), 10**30), st.none(), st.booleans(),
    st.text(max_size=3), st.lists(st.integers(), max_size=1),
)  # fmt: skip
FIELDS = (
    "value_ns start_ns ns wall_ns busy_ns kernel_busy_ns copy_exposed_ns sync host iterations share_pct total_ns count"
    " median_ns compute_sol_pct memory_sol_pct intensity flop_rate flop_peak dram_peak_Bps occupancy_pct registers"
    " warps cycles mem_bandwidth_Bps float32"
)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_any_numbers_draw_within_the_box_or_not_at_all(data):
    """Every number of a summary may be anything: a file said so."""

    def spoilt(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                k: data.draw(NUMBER) if k in FIELDS.split() and data.draw(st.booleans()) else spoilt(v)
                for k, v in value.items()
            }
        return [spoilt(v) for v in value] if isinstance(value, list) else value

    summary = spoilt(hostile_summary())
    for picture in shown(summary):
        well_formed(html(picture))
        assert "nan" not in re.sub(r">[^<]*<", "><", picture.svg).lower().replace("dominant", "")
        for number in re.findall(r' (?:x|x1|x2|cx|y1|y2|cy|width)="(-?[\d.e+]+)%"', picture.svg):
            assert -5 <= float(number) <= 105
        for number in re.findall(r' width="([\d.]+)%"', picture.svg):
            assert math.isfinite(float(number))
    pictures.kernel_table(summary, prefix="c1")


@pytest.mark.parametrize("summary", [{}, {"gpu": 7, "tree": [], "kernels": {}, "timeline": "x"}, {"kernels": [None, 3, {}]}])
def test_a_summary_of_another_shape_gives_no_picture(summary):
    assert shown(summary) == []
    assert pictures.kernel_table(summary, prefix="c1").left_out == 0


TREE = {
    "name": "forward", "kind": "root", "value_ns": 1000,
    "children": [
        {"name": "aten::small", "kind": "op", "value_ns": 200, "children": []},
        {"name": "aten::block", "kind": "op", "value_ns": 800,
         "children": [{"name": "gemm", "kind": "kernel", "value_ns": 600, "children": []}]},
    ],
}  # fmt: skip


def test_a_wide_node_zooms_by_link_and_its_ancestors_lead_back():
    whole = pictures.flame(TREE, prefix="c1", title="t", link=lambda path: f"?focus={path}")
    assert whole is not None
    assert re.findall(r'href="([^"]*)"', whole.svg) == ["?focus=1"]  # what has nothing below it has no link
    zoomed = pictures.flame(TREE, prefix="c1", title="t", focus="1", link=lambda path: f"?focus={path}")
    assert zoomed is not None
    links = re.findall(r'<a id="([^"]*)" href="([^"]*)"', zoomed.svg)
    assert links == [("c1-flame-n", "?focus="), ("c1-flame-n1", "?focus=")]  # the focused one leads to the one above it
    assert [row[0].strip() for row in zoomed.rows] == ["forward", "block", "gemm"]
    assert [row[3] for row in zoomed.rows] == ["100.0\u00a0%", "80.0\u00a0%", "60.0\u00a0%"]


@pytest.mark.parametrize("focus", ["7", "-1", "x", "1.0.0.0", "²", "1." * 5000, "99999999999999999999"])
def test_a_focus_that_leads_nowhere_shows_what_it_still_finds(focus):
    drawn = pictures.flame(TREE, prefix="c1", title="t", focus=focus, link=lambda path: path)
    assert drawn is not None
    well_formed(drawn.svg)


def test_a_tree_that_is_too_deep_or_too_wide_is_cut():
    deep: dict[str, Any] = {"name": "leaf", "kind": "op", "value_ns": 10, "children": []}
    for _ in range(500):
        deep = {"name": "n", "kind": "op", "value_ns": 10, "children": [deep]}
    wide = {
        "name": "n",
        "kind": "root",
        "value_ns": 10**6,
        "children": [{"name": "c", "kind": "op", "value_ns": 10, "children": []}] * 5000,
    }
    assert str(pictures.flame(deep, prefix="c1", title="t")).count("<rect") < 100
    drawn = pictures.flame(wide, prefix="c1", title="t")
    assert drawn is not None
    assert "5000 others" in drawn.svg


def test_two_flames_on_one_scale_have_one_length_for_one_time():
    small = {**TREE, "value_ns": 1000}
    one = pictures.flame(small, prefix="a", title="t", scale_ns=2000)
    assert one is not None
    assert re.search(r'<rect class="c c-root" x="0%" y="0" width="50%"', one.svg)


def test_the_kernel_table_sorts_by_link_and_turns_round():
    table = pictures.kernel_table(h200(), prefix="c1", link=lambda sort: f"?s={sort}")
    by_label = {h.label: h for h in table.headings}
    assert (by_label["Time"].sort, by_label["Time"].href) == ("descending", "?s=time")
    assert (by_label["Kernel"].sort, by_label["Kernel"].href) == ("none", "?s=name")
    assert by_label["Calls"].href == "?s=-calls"
    names = [row.name for row in pictures.kernel_table(h200(), prefix="c1", sort="name").rows]
    assert names == sorted(names, key=str.lower)
    shortest = pictures.kernel_table(h200(), prefix="c1", sort="time").rows[0]
    assert shortest.name == "vectorized_elementwise_kernel · Gelu"
    odd = pictures.kernel_table(h200(), prefix="c1", sort="-drop table")
    assert [r.name for r in odd.rows] == [r.name for r in table.rows]


def test_the_kernel_table_says_whose_a_kernel_is_and_what_changed():
    summary = h200()
    changes = compare({**summary, "kernels": summary["kernels"][1:]}, summary)["kernels"]
    rows = pictures.kernel_table(summary, prefix="c1", changes=changes).rows
    assert [(r.origin, r.change) for r in rows[:2]] == [("library", "new"), ("library", "")]
    assert rows[0].full_name.startswith("sm80_xmma_gemm")
    assert rows[0].cells == ("173\u00a0µs", "20.8\u00a0%", "1", "173\u00a0µs", "25.6\u00a0MB", "latency: small grid")


def test_the_kernel_table_says_what_bounds_a_kernel_and_no_verdict():
    """Reviewers read it before they know what became of the candidate, and "verdict" is the word for that."""
    table = pictures.kernel_table(h200(), prefix="c1", sort="limit")
    assert table.headings[-1].label == "Bound by"
    assert [row.cells[-1] for row in table.rows] == ["compute", *["latency: small grid"] * 3, "–"]
    assert "verdict" not in render_to_string("pictures/kernels.html", {"table": table}).lower()


def test_before_and_after_say_what_went_and_what_came():
    summary = h200()
    fused = {**summary["kernels"][2], "key": "fused", "short_name": "fused_rows", "origin": "own", "name": "fused_rows"}
    compared = compare(summary, {**summary, "kernels": [*summary["kernels"][:2], fused]})
    picture = pictures.changes(compared["kernels"], prefix="c1", name="changed-kernels", title="Kernel by kernel")
    assert picture is not None
    well_formed(html(picture))
    by_name = {row[0]: row for row in picture.rows}
    assert by_name["fused_rows"][1:6] == ("new", "–", "5.05\u00a0µs", "–", "1")
    assert by_name["vectorized_layer_norm_kernel"][1:4] == ("gone", "4.34\u00a0µs", "–")
    assert by_name["gemm f32 64x64x8"][1:4] == ("kept", "173\u00a0µs", "173\u00a0µs")
    assert "fused_rows – before, 5.05\u00a0µs after" in picture.svg
    assert pictures.changes([], prefix="c1", name="x", title="t") is None


def test_operations_copies_and_calls_are_tables_of_an_average_iteration():
    tables = {table.id: table for table in pictures.plain_tables(h200(), prefix="c1")}
    assert list(tables) == ["c1-ops", "c1-copies", "c1-calls"]
    assert all(len(row) == len(table.columns) for table in tables.values() for row in table.rows)
    assert any(row[0] == "device to host" for row in tables["c1-copies"].rows)
    assert pictures.plain_tables({"ops": 3, "copies": [None], "api": {}}, prefix="c1") == []
