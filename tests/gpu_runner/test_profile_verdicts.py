"""The rules over a summary, at both sides of each threshold, and the comparison of two summaries."""

from __future__ import annotations

import copy

import pytest

from gpu_runner.profile.advice import ADVICE, STALLS, candidates, ceiling
from gpu_runner.profile.compare import compare
from gpu_runner.profile.counters import STALLS as STALL_METRICS
from gpu_runner.profile.kernel_verdicts import kernel_verdict
from gpu_runner.profile.sweep import CAUSES
from gpu_runner.profile.verdicts import gpu_verdicts, worth_counters

WALL = 100_000_000


def summary(*, kernels=50.0, exposed=0.0, iterations=20, kernel_count=2000, median=20_000, basis="nvtx", copies=(), **idle):
    """A summary of 100 ms; shares in per cent."""
    part = WALL // 100
    return {
        "source": {"status": "measured", "reason": "", "warnings": [], "events_lost": False},
        "target": {"iterations": iterations},
        "window": {"wall_ns": WALL, "basis": basis},
        "device": {"mem_bandwidth_Bps": None, "peak_flops": {}, "peaks_from": None},
        "gpu": {
            "busy_ns": round((kernels + exposed) * part), "kernel_busy_ns": round(kernels * part),
            "copy_exposed_ns": round(exposed * part), "kernel_count": kernel_count, "median_kernel_ns": median,
            "idle_by_cause_ns": {c: round(idle.get(c, 0.0) * part) for c in CAUSES},
        },
        "copies": list(copies),
        "kernels": [kernel("a", 30), kernel("b", 15), kernel("c", 5)],
    }  # fmt: skip


def kernel(name, share, **counters):
    return {"key": name, "name": name, "short_name": name, "share_pct": share, "total_ns": share * WALL // 100, "count": 20,
            "origin": "torch", "counters": counters or None}  # fmt: skip


def classes(**shares):
    return [v["class"] for v in gpu_verdicts(summary(**shares))]


@pytest.mark.parametrize(
    ("shares", "wanted"),
    [
        ({"exposed": 20.0}, ["transfer-bound"]), ({"exposed": 19.9}, ["gpu-bound"]),
        ({"uvm": 10.0}, ["transfer-bound"]), ({"uvm": 9.9}, ["gpu-bound"]),
        ({"sync": 10.0}, ["sync-bound"]), ({"sync": 9.9}, ["gpu-bound"]),
        ({"host": 10.0, "launch": 5.0}, ["host-bound"]), ({"host": 10.0, "launch": 4.9}, ["gpu-bound"]),
        ({"host": 15.0, "median": 9_999, "kernel_count": 400}, ["launch-bound"]),
        ({"host": 15.0, "median": 10_000, "kernel_count": 400}, ["host-bound"]),
        ({"host": 15.0, "median": 9_999, "kernel_count": 399}, ["host-bound"]),
        ({"host": 15.0, "median": 9_999, "iterations": None, "basis": "first_to_last"}, ["host-bound"]),
        ({"dependency": 15.0}, ["dependency-bound"]), ({"dependency": 14.9}, ["gpu-bound"]),
        ({"sync": 12.0, "host": 30.0, "dependency": 20.0}, ["host-bound", "dependency-bound", "sync-bound"]),
        ({"kernels": 80.0, "sync": 12.0}, ["sync-bound", "gpu-bound"]), ({"kernels": 79.9, "sync": 12.0}, ["sync-bound"]),
    ],
)  # fmt: skip
def test_each_system_level_rule_at_its_threshold(shares, wanted):
    assert classes(**shares) == wanted


@pytest.mark.parametrize(
    ("work", "wanted"),
    [
        # 100 ms of which 80 % are kernels, 20 iterations: 4 ms of kernels each; 4e12 B/s and 5e13 FLOP/s
        ({"bytes": 9.6e9}, "memory-bound"), ({"bytes": 9.5e9}, None), ({"flops": 1.2e11}, "compute-bound"),
        ({"flops": 1.2e11, "bytes": 1.5e10}, "memory-bound"), ({}, None),
    ],
)  # fmt: skip
def test_without_counters_the_whole_forward_is_estimated_against_measured_ceilings(work, wanted):
    made = summary(kernels=80.0)
    made["target"] |= work
    made["device"] = {"mem_bandwidth_Bps": 4e12, "peak_flops": {"float32": 5e13}, "peaks_from": "measured"}
    found = gpu_verdicts(made)
    assert [v["class"] for v in found] == ["gpu-bound", *([wanted] if wanted else [])]
    if wanted:
        assert found[1]["confidence"] == "low"
        assert {e["status"] for e in found[1]["evidence"]} == {"estimated"}
    made["device"]["peaks_from"] = "report"
    assert [v["class"] for v in gpu_verdicts(made)] == ["gpu-bound"]


@pytest.mark.parametrize(
    ("target", "blocks", "wanted"),
    [
        ({"flops": 1.2e11, "flop_dtype": "float32"}, 1000, "compute-bound"),
        ({"flops": 1.2e11, "flop_dtype": "bfloat16"}, 1000, None),  # little for tensor cores
        ({"flops": 2e12, "flop_dtype": "bfloat16"}, 1000, "compute-bound"),
        ({"bytes": 1e9, "moved_bytes": 9.6e9}, 1000, "memory-bound"),  # what the operations move, not the least
        ({"bytes": 1e9, "moved_bytes": 2e9}, 1000, "latency-bound"),
        ({"bytes": 1e9}, 1000, None),  # of a candidate only the least is known, and a small share of it says nothing
        ({"bytes": 1e9}, 131, "latency-bound"),  # whatever it moves: multiprocessors have no block
        ({"bytes": 1e9}, 132, None),
        ({"bytes": 2e10}, 1000, "memory-bound"),  # more than memory's own rate
        ({"bytes": 1e9, "moved_bytes": 2e9, "flops": 9e11}, 1000, None),  # tensor cores: that ceiling is not known
    ],
)
def test_estimates_without_counters(target, blocks, wanted):
    made = summary(kernels=80.0)
    made["target"] |= target
    peaks = {"float32": 5e13, "bfloat16": 8e14}
    made["device"] = {"mem_bandwidth_Bps": 4e12, "peak_flops": peaks, "peaks_from": "measured", "sm_count": 132}
    for row in made["kernels"]:
        row["grid"] = [blocks, 1, 1]
    assert [v["class"] for v in gpu_verdicts(made)] == ["gpu-bound", *([wanted] if wanted else [])]


def test_how_sure_a_verdict_is():
    assert gpu_verdicts(summary(sync=30.0))[0]["confidence"] == "high"
    assert gpu_verdicts(summary(sync=30.0, iterations=9))[0]["confidence"] == "medium"
    assert gpu_verdicts(summary(sync=30.0, iterations=None, basis="first_to_last"))[0]["confidence"] == "low"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s: s["target"].update(iterations=2), "2 iterations were measured"),
        (lambda s: s["window"].update(wall_ns=999_999), "1000 µs long"),
        (lambda s: s["source"].update(events_lost=True), "lost events"),
        (lambda s: s["source"].update(status="unavailable", reason="no kernels"), "no kernels"),
        (lambda s: s["gpu"].update(busy_ns=0), "no GPU events"),
    ],
)
def test_too_little_gives_no_verdict(change, words):
    made = summary(sync=30.0)
    change(made)
    (verdict,) = gpu_verdicts(made)
    assert (verdict["class"], verdict["suggestions"], verdict["ceiling"]) == ("insufficient", ["longer"], None)
    assert words in verdict["sentence"]


def test_pageable_and_small_copies_have_advice_of_their_own():
    rows = [{"kind": "H2D", "count": 50, "bytes": 50 * 4096, "time_ns": 5, "pageable_count": 50}]
    (verdict,) = gpu_verdicts(summary(exposed=25.0, copies=rows))
    assert verdict["suggestions"] == ["keep-on-device", "pin", "batch-copies"]
    assert [e["metric"] for e in verdict["evidence"]] == ["copy_exposed_pct", "pageable_copies"]


def test_unified_memory_that_moves_during_the_largest_kernel_is_a_transfer():
    made = summary(kernels=95.0, copies=[{"kind": "UVM_H2D", "count": 5, "bytes": 5, "time_ns": 5, "pageable_count": 0}])
    made["gpu"]["uvm_overlap_pct"] = 9.9
    assert [v["class"] for v in gpu_verdicts(made)] == ["gpu-bound"]
    made["gpu"]["uvm_overlap_pct"] = 60.0
    verdict, _ = gpu_verdicts(made)
    assert (verdict["class"], verdict["suggestions"]) == ("transfer-bound", ["keep-on-device", "prefetch-managed"])
    assert "60 % of the largest kernel's time" in verdict["sentence"]


def test_every_advice_has_a_kind_of_the_plan_and_a_sentence():
    kinds = {"fuse", "reduce", "epilogue", "layout", "memory", "algebra", "host", "other"}
    assert {kind for kind, _ in ADVICE.values()} <= kinds
    assert all(sentence.endswith(".") for _, sentence in ADVICE.values())
    assert {name for _, names in STALLS.values() for name in names} <= set(ADVICE)
    assert set(STALL_METRICS) - set(STALLS) == {"selected", "not_selected"}


def test_the_ceiling_is_amdahls():
    assert ceiling(50.0) == 2.0
    assert ceiling(0.0) == 1.0
    assert [ceiling(v) for v in (None, 99.0, 150.0, -1.0)] == [None] * 4


def test_candidates_for_the_plan_come_largest_gain_first_and_once_each():
    made = gpu_verdicts(summary(sync=12.0, host=30.0, median=5000))
    found = candidates(made + made)
    assert [(c["id"], round(c["predicted_at_most"], 2)) for c in found] == [("fuse", 1.43), ("graph", 1.43), ("no-sync", 1.14)]
    assert all(c["why"] and c["title"] for c in found)


def judged(name="k", **c):
    defaults = {"compute_sol_pct": 30.0, "memory_sol_pct": 30.0, "waves": 5.0, "duration_ns": 50_000, "occupancy_pct": 60.0,
                "occupancy_theoretical_pct": 65.0, "issue_active": 0.3}  # fmt: skip
    return kernel_verdict(kernel(name, 40.0, **(defaults | c)), 40.0)


@pytest.mark.parametrize(
    ("counters", "wanted"),
    [
        ({"compute_sol_pct": 80.0, "memory_sol_pct": 79.0}, "compute-bound"),
        ({"compute_sol_pct": 80.0, "memory_sol_pct": 80.0}, "compute-bound"),
        ({"compute_sol_pct": 80.0, "memory_sol_pct": 81.0}, "memory-bound"),
        ({"compute_sol_pct": 70.0, "memory_sol_pct": 60.0}, "compute-bound"),
        ({"compute_sol_pct": 60.0, "memory_sol_pct": 70.0}, "memory-bound"),
        ({"compute_sol_pct": 60.0, "memory_sol_pct": 69.9}, "balanced"),
        ({"compute_sol_pct": 79.9, "memory_sol_pct": 70.0}, "balanced"),
        ({"compute_sol_pct": 59.9, "memory_sol_pct": 5.0}, "latency"),
        ({"waves": 0.99}, "latency: small grid"),
        ({"waves": 1.0, "duration_ns": 9_999}, "latency: launch"),
        ({"waves": None, "duration_ns": None}, "latency"),
        ({"occupancy_pct": 49.9, "occupancy_theoretical_pct": 50.0, "occupancy_limiter": "registers"}, "latency: occupancy"),
        ({"occupancy_pct": 54.9}, "latency: occupancy"),
        ({"occupancy_pct": 55.0}, "latency"),
        ({"stalls": [{"reason": "selected", "share_pct": 50.0}, {"reason": "long_scoreboard", "share_pct": 30.1}]},
         "latency: stalls"),
        ({"stalls": [{"reason": "long_scoreboard", "share_pct": 30.0}]}, "latency"),
        ({"stalls": [{"reason": "long_scoreboard", "share_pct": 60.0}], "issue_active": 0.8}, "latency"),
    ],
)  # fmt: skip
def test_each_kernel_level_rule_at_its_threshold(counters, wanted):
    assert judged(**counters)["class"] == wanted


def test_a_product_without_tensor_cores_is_told_to_use_them_and_others_are_not():
    counters = {"compute_sol_pct": 85.0, "tensor_pct": 1.0}
    assert "tensor-cores" in judged("my_gemm", **counters)["suggestions"]
    assert "tensor-cores" not in judged("my_gemm", **counters | {"tensor_pct": 50.0})["suggestions"]
    assert "tensor-cores" not in judged("softmax", **counters)["suggestions"]


@pytest.mark.parametrize(("unit", "first"), [("DRAM", "fewer-bytes"), ("L2", "tile"), ("L1", "coalesce")])
def test_memory_advice_is_by_the_unit_that_is_full(unit, first):
    assert judged(memory_sol_pct=85.0, memory_unit=unit)["suggestions"][0] == first


def test_at_the_roofline_there_is_nothing_more_to_suggest():
    verdict = judged(memory_sol_pct=95.0, memory_unit="DRAM")
    assert verdict["suggestions"] == ["at-roofline"]
    assert candidates([verdict]) == []


@pytest.mark.parametrize(
    ("limiter", "advice"),
    [("registers", "registers"), ("shared_mem", "shared-memory"), ("blocks", "block-size"), ("warps", "block-size")],
)
def test_the_limiter_of_occupancy_is_named(limiter, advice):
    verdict = judged(occupancy_pct=20.0, occupancy_theoretical_pct=25.0, occupancy_limiter=limiter)
    assert verdict["suggestions"] == [advice]
    assert "limited by" in verdict["sentence"]


def test_the_ceiling_of_a_kernel_is_its_share_up_to_its_peak():
    assert judged(compute_sol_pct=75.0)["ceiling"] == pytest.approx(1 / (1 - 0.4 * 0.25))


def test_estimates_are_never_sure():
    verdict = judged(memory_sol_pct=90.0, status="estimated")
    assert verdict["confidence"] == "low"
    assert {e["status"] for e in verdict["evidence"]} == {"estimated"}


def test_without_both_speeds_of_light_there_is_no_verdict():
    assert judged(compute_sol_pct=None) is None
    assert kernel_verdict(kernel("k", 40.0)) is None


def test_which_kernels_are_worth_a_look_with_counters():
    made = summary()
    assert worth_counters(made) == ["a", "b"]  # 60 and 30 % of the kernels' time
    made["kernels"] = [kernel(f"k{n}", 10) for n in range(5)]
    assert worth_counters(made) == ["k0", "k1", "k2"]
    made["kernels"] = [kernel(f"k{n}", 5) for n in range(20)]
    assert worth_counters(made) == []


def before_and_after():
    one = {**summary(sync=30.0), "ops": [{"name": "aten::add", "gpu_rows": 40, "gpu_ns": 4000, "copy_bytes": 0}]}
    two = copy.deepcopy(one)
    two["kernels"] = [{**kernel("a", 30, dram_bytes=100), "total_ns": 15_000_000}, {**kernel("fused", 10), "origin": "own"}]
    two["gpu"]["idle_by_cause_ns"]["sync"] = 0
    two["ops"] = []
    return one, two


def test_what_stayed_what_went_and_what_came():
    found = compare(*before_and_after())
    rows = {row["key"]: row for row in found["kernels"]}
    assert {key: row["change"] for key, row in rows.items()} == {"a": "kept", "b": "gone", "c": "gone", "fused": "new"}
    assert (found["gone"], found["new"]) == (["b", "c"], ["fused"])
    assert rows["a"]["delta_ns"] == (15_000_000 - 30_000_000) / 20
    assert rows["a"]["candidate"] == {"ns": 750_000, "launches": 1, "bytes": 100, "share_pct": 30}
    assert rows["a"]["reference"]["bytes"] is None  # unknown is not zero
    assert rows["b"]["candidate"] is None
    assert [row["delta_ns"] for row in found["kernels"]] == sorted(
        (r["delta_ns"] for r in found["kernels"]), key=lambda d: -abs(d)
    )
    assert found["ops"][0]["change"] == "gone"


def test_idle_time_by_cause_before_and_after_and_the_share_of_own_kernels():
    found = compare(*before_and_after())
    assert {row["cause"]: row["delta_ns"] for row in found["causes"]}["sync"] == -30_000_000 / 20
    assert found["totals"]["reference"]["own_share_pct"] == 0
    assert found["totals"]["candidate"]["own_share_pct"] == pytest.approx(100 * 10 / 25)
    assert found["totals"]["candidate"]["launches"] == 2


def test_a_side_without_a_gpu_has_no_causes():
    one, two = before_and_after()
    two["gpu"] = None
    assert {row["candidate_ns"] for row in compare(one, two)["causes"]} == {None}
    one["gpu"] = None
    assert compare(one, two)["causes"] == []
