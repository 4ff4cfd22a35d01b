"""What a sandboxed process answers becomes a report, whatever it answers. The events are made ones: no GPU is here."""

from __future__ import annotations

import json
import random

import pytest

from gpu_runner.child import profiling
from gpu_runner.contracts import DeviceInfo
from gpu_runner.profile.collect import REPORT, around, summarise
from gpu_runner.profile.estimates import Work
from gpu_runner.profile.limits import Meter
from gpu_runner.profile.nsys import read_nsys
from gpu_runner.profile.reading import finished
from gpu_runner.profile.system import summarise_gpu
from tests.gpu_runner.profile_files import SAMPLES, busy_trace, event, iteration

GPU = DeviceInfo(kind="gpu", name="NVIDIA H200", target="sm_90", bandwidth_bps=4.1e12, peak_flops=50e12)
CPU = DeviceInfo(kind="cpu", name="a processor", target="cpu", cores=2)
USAGE = {"wall_ns": 12 * 200_000, "cpu_ns": 12 * 190_000, "threads": 1}


def answer(events):
    """As the child makes it of a trace, by its own functions."""
    trace = sorted((e for e in events if e["cat"] in profiling._CATEGORIES), key=lambda e: (e["ts"], -e["dur"]))
    rows, lost = profiling._rows(trace)
    return {
        "rows": rows,
        "events": profiling._events(trace),
        "lost": lost,
        "iterations": 12,
        "usage": USAGE,
        "torch": "2.11.0",
    }


def own_trace():
    """Every second kernel is launched inside one of the candidate's functions."""
    events = busy_trace(kernels=4)["traceEvents"]
    launches = [e for e in events if e["name"] == "cudaLaunchKernel"]
    for number, launch in enumerate(launches):
        if number % 2:
            events.append(event("user_annotation", "own:fused", launch["ts"] - 1, 8))
            kernel = next(
                e for e in events if e["cat"] == "kernel" and e["args"]["correlation"] == launch["args"]["correlation"]
            )
            kernel["name"] = "fused(float*)"
    return events


def test_a_forward_on_a_gpu_has_its_idle_time_by_cause_and_its_own_kernels_share():
    summary, coverage = summarise("candidate", answer(own_trace()), GPU, "ab", Work(flops=10**9, bytes=10**6))
    assert coverage == pytest.approx(0.5)
    assert summary["gpu"]["busy_ns"] == 12 * 4 * 50_000
    assert {k["key"]: k["origin"] for k in summary["kernels"]} == {"at::native::add": "torch", "fused": "own"}
    assert summary["device"]["name"] == "NVIDIA H200"
    assert summary["device"]["peaks_from"] == "measured"
    assert summary["target"]["forward_ns"] == 200_000
    assert summary["cpu"]["parallel_eff_pct"] == pytest.approx(95.0)
    done = finished(summary, coverage)
    assert done["verdict"]["class"] == "host-bound"
    json.dumps(done, allow_nan=False)


def test_shapes_and_streams_come_through_the_rows_that_the_child_keeps():
    summary, _ = summarise("candidate", answer(iteration(1000, 0) + iteration(2000, 1) + iteration(3000, 2)), GPU, "ab", Work())
    (kernel,) = summary["kernels"]
    assert (kernel["grid"], kernel["block"], kernel["regs"], kernel["smem_dynamic"]) == ([8, 1, 1], [128, 1, 1], 32, 1024)
    assert kernel["op_path"] == ["stitchweb_iter", "aten::add"]


def test_an_answer_that_does_not_fit_ends_with_a_whole_iteration(monkeypatch):
    monkeypatch.setattr(profiling, "EVENT_BYTES", 20_000)
    made = answer(busy_trace(iterations=60)["traceEvents"])
    assert len(json.dumps(made["events"])) < 22_000
    summary, _ = summarise("candidate", made, GPU, "ab", Work())
    assert 3 <= summary["target"]["iterations"] < 20
    # Each iteration is as busy as all are: none is in the range whose kernels are not.
    assert summary["gpu"]["busy_ns"] == summary["target"]["iterations"] * 150_000


def test_a_gpu_whose_profiler_lost_its_events_has_no_verdict():
    events = [e for e in busy_trace()["traceEvents"] if e["cat"] != "kernel"]
    summary = finished(summarise("reference", answer(events), GPU, "ab", Work())[0])
    assert summary["source"]["status"] == "unavailable"
    assert summary["verdict"]["class"] == "insufficient"


@pytest.mark.parametrize(
    "events",
    [None, 7, "x", {}, [None], [[]], [{"ph": "X"}], [{"ph": "X", "cat": "kernel", "ts": []}],
     [event("kernel", "k", 1, 1)] * (REPORT.rows + 1), [event("kernel", "k", -1e300, 1)],
     [event("kernel", 7, 0, 0, device="x")]],
)  # fmt: skip
def test_an_answer_of_any_shape_is_a_report(events):
    summary = finished(summarise("candidate", {"events": events, "rows": events}, GPU, "ab", Work())[0])
    json.dumps(summary, allow_nan=False)
    assert summary["verdict"]["class"] in ("insufficient", "gpu-bound")


def test_an_answer_that_is_changed_at_random_is_a_report():
    generator = random.Random(1)
    text = json.dumps(answer(own_trace()))
    for _ in range(200):
        at = generator.randrange(len(text))
        changed = text[:at] + generator.choice(('"', "7", "-", "null", "[]", "e9")) + text[at + generator.randrange(3) :]
        try:
            value = json.loads(changed)
        except ValueError:
            continue
        json.dumps(finished(summarise("candidate", value, GPU, "ab", Work())[0]))
        json.dumps(finished(summarise("candidate", value, CPU, "ab", Work())[0]))


def test_on_a_cpu_coverage_is_the_share_of_the_forwards_in_own_functions():
    events = []
    for n in range(3):
        events += [
            event("user_annotation", "stitchweb_iter", 1000 * n, 500),
            event("user_annotation", "own:fused", 1000 * n + 50, 300),
        ]
    summary, coverage = summarise("candidate", answer(events), CPU, "ab", Work())
    assert coverage == pytest.approx(0.6)
    assert summary["gpu"] is None
    wanted = "Host-bound: 40 % of the forward is Python and the call of 1 operation; fused takes 60 %; 60% is spent in its own"
    assert finished(summary, coverage)["verdict"]["sentence"] == f"{wanted} kernels."


def test_times_are_the_tools_around_the_program_and_operations_are_torch_profilers():
    work = Work(flops=10**9, bytes=10**6, dtype="bfloat16")
    inside, _ = summarise("reference", answer(iteration(1000, 0) + iteration(2000, 1) + iteration(3000, 2)), GPU, "ab", work)
    outside = summarise_gpu(read_nsys(SAMPLES / "nsys.sqlite", Meter(), "step"))
    name = outside["kernels"][0]["name"]
    inside["kernels"][0] |= {"name": name.replace("<", "< "), "origin": "own", "op_path": ["aten::linear"]}
    both = around(inside, outside)
    assert both["source"]["tool"] == "nsys"
    assert (both["kernels"][0]["origin"], both["kernels"][0]["op_path"]) == ("own", ["aten::linear"])
    assert both["kernels"][1]["op_path"] != ["aten::linear"]
    assert both["ops"] == inside["ops"]
    assert (both["target"]["flops"], both["target"]["flop_dtype"]) == (10**9, "bfloat16")
    assert both["cpu"] == inside["cpu"]
    assert both["device"]["name"] == GPU.name
    assert both["device"]["sm_count"] == 132, "what torch.profiler's process did not say"
    json.dumps(finished(both), allow_nan=False)


def test_without_events_of_torch_profiler_the_other_tools_are_all_there_is():
    inside, _ = summarise("reference", answer([event("cpu_op", "aten::add", 0, 30)]), GPU, "ab", Work())
    both = around(inside, summarise_gpu(read_nsys(SAMPLES / "nsys.sqlite", Meter(), "step")))
    assert both["source"]["status"] == "measured"
    assert finished(both)["verdict"]["class"] != "insufficient"
    assert both["tree"]["children"]
