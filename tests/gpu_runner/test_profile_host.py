"""What bounds a program on a processor: the rules at their thresholds, and the work that is put beside an operation's time."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
import torch

from gpu_runner.child import counting
from gpu_runner.contracts import DeviceInfo
from gpu_runner.profile.collect import summarise
from gpu_runner.profile.estimates import OpWork, Work, peak_of, peaks_of, roof, work_of
from gpu_runner.profile.reading import finished
from gpu_runner.profile.rows import parse_rows

DEVICE = DeviceInfo(kind="cpu", name="A processor", target="cpu", cores=4, bandwidth_bps=1e10, peak_flops=1e11)
MS = 1_000_000


def rows(*ops: tuple[str, float], iterations: int = 5, wall_ms: float = 10.0):
    """Forwards of these operations, (name, milliseconds), one after the other."""
    found = []
    for n in range(iterations):
        start = at = round(n * wall_ms * MS)
        found.append(["user_annotation", "stitchweb_iter", start, round(wall_ms * MS), "1"])
        for name, ms in ops:
            found.append(["cpu_op", name, at, round(ms * MS), "1"])
            at += round(ms * MS)
    return found


def judged(ops, work, *, used=4.0, waited_ms=0.0, forward_ms=10.0, role="reference"):
    """The summary of a program that computes with `used` of 4 threads; 10 forwards unprofiled."""
    wall = round(10 * forward_ms * MS)
    usage = {
        "wall_ns": wall, "forward_ns": wall // 10, "cpu_ns": round(used * wall), "waited_ns": round(waited_ms * MS),
        "threads": 4,
    }  # fmt: skip
    answer = {"rows": rows(*ops), "usage": usage, "iterations": 10, "lost": 0, "torch": "2"}
    summary, coverage = summarise(role, answer, DEVICE, "ab", work)
    return finished(summary, coverage if role == "candidate" else None)


def work(**ops: tuple[float, float]) -> Work:
    """(MB, MFLOP) of each operation."""
    each = {f"aten::{name}": OpWork(round(flops * 1e6), round(moved * 1e6)) for name, (moved, flops) in ops.items()}
    return Work(sum(op.flops for op in each.values()), 20_000_000, each)


@pytest.mark.parametrize(
    ("moved", "flops", "wanted", "words"),
    [
        (
            54.0,
            1.0,
            "memory-bound",
            "Memory-bound: 90 % of the forward moves more than it computes: 54.0 MB at 6.0 of 10.0 GB/s",
        ),
        (53.0, 1.0, "memory-bound", "Memory leads, not at its limit"),
        (26.0, 1.0, "latency-bound", "Latency-bound"),
        (
            1.0,
            540.0,
            "compute-bound",
            "Compute-bound: 90 % of the forward is arithmetic, at 60 of 100 GFLOP/s; mul takes 90 %.",
        ),
        (1.0, 530.0, "compute-bound", "Compute leads, not at its limit"),
        (1.0, 260.0, "latency-bound", "arithmetic (29 %)"),
    ],
)
def test_the_roof_that_the_time_lies_under_names_the_class(moved, flops, wanted, words):
    """9 of 10 ms: 90 MB or 900 MFLOP would be all that the machine can do."""
    found = judged([("aten::mul", 9.0)], work(mul=(moved, flops)))["verdict"]
    assert found["class"] == wanted, found["sentence"]
    assert words in found["sentence"]


def test_the_larger_share_of_the_time_decides_whatever_is_nearer_to_its_ceiling():
    ops = [("aten::mul", 6.0), ("aten::mm", 3.0)]
    found = judged(ops, work(mul=(36.0, 1.0), mm=(1.0, 290.0)))["verdict"]
    assert (found["class"], round(found["share_pct"])) == ("memory-bound", 60)


def test_what_fusing_would_save_is_said_and_is_the_ceiling():
    found = judged([("aten::mul", 9.0)], work(mul=(80.0, 1.0)))["verdict"]
    assert "Fused, 20.0 MB would do." in found["sentence"]
    assert found["ceiling"] == pytest.approx(1 / (1 - 0.9 * 0.75))


def test_an_operations_share_of_an_unprofiled_forward_is_its_time():
    """The profiler slows a program down: rates are not taken from its clock."""
    slow = judged([("aten::mul", 9.0)], work(mul=(40.0, 1.0)), forward_ms=5.0)
    assert slow["kernels"][0]["counters"]["dram_rate_Bps"] == pytest.approx(40e6 / 4.5e-3)


@pytest.mark.parametrize(
    ("used", "waited_ms", "wanted"),
    [
        (2.0, 0.0, "memory-bound"), (1.9, 0.0, "host-bound"),
        (1.5, 100.0, "memory-bound"),  # others held a core for 100 of 100 ms: 1.5 of 3 were busy
        (0.8, 150.0, "host-bound"),
    ],
)  # fmt: skip
def test_threads_that_do_not_work_are_the_bottleneck_unless_others_held_their_cores(used, waited_ms, wanted):
    found = judged([("aten::mul", 9.0)], work(mul=(80.0, 1.0)), used=used, waited_ms=waited_ms)["verdict"]
    assert found["class"] == wanted, found["sentence"]


@pytest.mark.parametrize(("waited_ms", "known"), [(79.0, True), (80.0, False)])
def test_on_a_busy_machine_the_roof_is_named_and_the_rate_is_not(waited_ms, known):
    """80 of 400 ms of four threads."""
    found = judged([("aten::mul", 9.0)], work(mul=(20.0, 1.0)), waited_ms=waited_ms)["verdict"]
    assert found["class"] == ("latency-bound" if known else "memory-bound")
    assert ("cannot be told: others held the cores 20 % of the time." in found["sentence"]) is not known
    assert found["confidence"] == "low"


def test_a_machine_that_others_hold_tells_nothing():
    found = judged([("aten::mul", 9.0)], work(mul=(20.0, 1.0)), waited_ms=160.0)["verdict"]
    assert (found["class"], found["ceiling"]) == ("insufficient", None)
    assert "Others held the cores 40 % of the time" in found["sentence"]


@pytest.mark.parametrize(
    ("moved", "flops", "words"),
    [
        (180.0, 1.0, "at 20.0 GB/s, beyond memory's 10.0: they come from a cache"),
        (1.0, 1800.0, "at 200 GFLOP/s, beyond the 100 of a matrix product here"),
    ],
)
def test_what_goes_beyond_a_ceiling_is_said(moved, flops, words):
    assert words in judged([("aten::mul", 9.0)], work(mul=(moved, flops)))["verdict"]["sentence"]


def test_an_operation_takes_the_time_of_all_that_it_calls():
    nested = rows(("aten::logsumexp", 8.0))
    inside = [["cpu_op", name, row[2] + at, MS * took, "1"] for row in nested[1::2]
              for name, at, took in (("aten::sub", 0, 5), ("aten::exp_", 5 * MS, 2))]  # fmt: skip
    done = work(logsumexp=(40.0, 1.0)).done_by(parse_rows(nested + inside)).done
    assert done == {"aten::sub": OpWork(1_000_000, 40_000_000, 5 * 8 * MS)}


def test_many_small_operations_are_calls_rather_than_work():
    ops = [("aten::mul", 0.008)] * 40
    found = judged(ops, work(mul=(80.0, 1.0)), role="reference")["verdict"]
    assert found["class"] == "dispatch-bound"
    assert "40 operations a forward" in found["sentence"]


def test_a_composite_operations_own_time_is_calls_and_a_counted_ones_is_work():
    """`aten::gru` loops over small operations; what it spends itself goes into calling them."""
    ops = [("aten::gru", 6.0), ("aten::mm", 3.0)]
    assert judged(ops, work(mm=(1.0, 200.0)))["verdict"]["class"] == "host-bound"
    assert judged(ops, work(gru=(1.0, 500.0), mm=(1.0, 200.0)))["verdict"]["class"] == "compute-bound"


def test_a_candidate_is_judged_by_the_least_that_it_must_do():
    least = Work(flops=10_000_000, bytes=70_000_000)
    found = judged([("own:fused", 9.0)], least, role="candidate")["verdict"]
    assert found["class"] == "memory-bound"
    assert "fused takes 90 %; 90% is spent in its own kernels" in found["sentence"]


@pytest.mark.parametrize("device", [DEVICE.model_copy(update={"bandwidth_bps": None, "peak_flops": None}), DEVICE])
def test_without_ceilings_or_work_nothing_is_claimed(device):
    answer = {"rows": rows(("aten::mul", 9.0)), "usage": {}, "iterations": 3}
    summary, _ = summarise("reference", answer, device, "ab", Work())
    found = finished(summary)
    json.dumps(found, allow_nan=False)
    assert found["verdict"]["class"] == "latency-bound"


def test_the_least_time_and_how_much_of_a_forward_it_is():
    summary = judged([("aten::mul", 9.0)], work(mul=(40.0, 1.0)))
    assert roof(summary, None) == {"bound": "memory", "least_ns": 2_000_000, "reached_pct": 20.0, "cached": False}
    assert roof(summary, 30_000_000)["cached"]
    summary["device"]["peaks_from"] = "report"
    assert roof(summary, None) is None


@pytest.mark.parametrize(
    "counts", [None, [], {"ops": 3}, {"ops": {"a": 3, "b": {"bytes": -1, "arithmetic": "x"}}, "flops": True}]
)
def test_counts_that_cannot_be_are_none(counts):
    assert work_of(counts, by_op=True).flops == 0


def test_arithmetic_is_counted_in_the_type_of_its_operands():
    model = torch.nn.Linear(64, 64).to(torch.bfloat16)
    reference = SimpleNamespace(model=model, forward=lambda given: model(given[0]).float() * 2.0)
    with torch.no_grad():
        counts = counting.count(reference, [torch.randn(8, 64, dtype=torch.bfloat16)])
    assert (counts["dtypes"]["aten::addmm"], counts["dtypes"]["aten::mul"]) == ("bfloat16", "float32")
    found = work_of(counts, by_op=True)
    assert (found.dtype, found.ops["aten::mul"].dtype) == ("bfloat16", "float32")
    assert work_of(counts, by_op=False).dtype == "bfloat16"


@pytest.mark.parametrize(
    ("dtype", "lies_under", "peak"),
    [("float32", "float32", 1e11), ("bfloat16", "bfloat16", 1e12), ("float64", "float32", 1e11), (None, "float32", 1e11)],
)
def test_arithmetic_lies_under_the_ceiling_of_its_type_where_there_is_one(dtype, lies_under, peak):
    device = {"peak_flops": peaks_of(DEVICE.model_copy(update={"bfloat16_flops": 1e12}))}
    assert peak_of(device, dtype) == (lies_under, peak)


def test_what_operations_move_and_compute_is_counted_by_hand():
    """An embedding reads the rows that it returns and not its table; a recurrent layer's products are its gates'."""
    model = torch.nn.ModuleDict({"table": torch.nn.Embedding(1000, 8), "lstm": torch.nn.LSTM(8, 16)})
    reference = SimpleNamespace(model=model, forward=lambda given: model["lstm"](model["table"](given[0]))[0])
    with torch.no_grad():
        counts = counting.count(reference, [torch.randint(0, 1000, (5, 2))])
    looked_up = next(op for name, op in counts["ops"].items() if name in ("aten::embedding", "aten::index_select"))
    assert looked_up["bytes"] == 2 * (5 * 2 * 8 * 4) + 5 * 2 * 8
    assert looked_up["arithmetic"] == 0
    layer = counts["ops"]["aten::mkldnn_rnn_layer"]
    assert layer["arithmetic"] == 2 * (5 * 2) * 4 * 16 * (8 + 16)
    assert counts["flops"] == 0, "torch has no formula for it"
