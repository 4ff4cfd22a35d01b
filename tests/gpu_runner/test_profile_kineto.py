"""Traces of torch.profiler, of every generation that is read."""

from __future__ import annotations

import json
import math

import pytest

from gpu_runner.profile import UnreadableProfile, read_profile
from tests.gpu_runner.profile_files import busy_trace, event, iteration, trace, write

US = 1000


def read(path, value, **options):
    return read_profile([write(path, value)], **options)


def test_the_gpus_time_and_its_idle_time_are_counted_inside_the_iterations_alone(tmp_path):
    loading = [event("cuda_runtime", "cuLibraryLoadData", 1, 900), event("kernel", "warm()", 5, 90, stream=7, correlation=9999)]
    made = busy_trace()
    made["traceEvents"] = loading + made["traceEvents"]
    found = read(tmp_path / "t.json", made)
    assert found["window"] == {"start_ns": 0, "end_ns": 4580 * US, "wall_ns": 4580 * US, "basis": "annotation"}
    gpu = found["gpu"]
    assert (gpu["busy_ns"], gpu["kernel_count"], gpu["median_kernel_ns"]) == (1800 * US, 36, 50 * US)
    # 30 µs before the first kernel, 250 µs between the iterations: no call was waiting, no launch filled them.
    assert gpu["idle_by_cause_ns"] == dict.fromkeys(gpu["idle_by_cause_ns"], 0) | {"host": (30 + 11 * 250) * US}
    assert gpu["idle_ns"] == gpu["idle_by_cause_ns"]["host"]
    assert found["verdict"]["class"] == "host-bound"
    assert found["target"]["iterations"] == 12


def test_every_number_adds_up_to_the_wall_time(tmp_path):
    gpu = read(tmp_path / "t.json", busy_trace(kernels=25, gpu_us=5))["gpu"]
    assert gpu["busy_ns"] + sum(gpu["idle_by_cause_ns"].values()) == gpu["busy_ns"] + gpu["idle_ns"]
    assert sum(b["total_ns"] for b in gpu["gap_histogram"]) == gpu["idle_ns"]


@pytest.mark.parametrize("old", [False, True], ids=["2022 and later", "2021, capital categories"])
@pytest.mark.parametrize("name", ["t.json", "t.json.gz", "named-anything"])
def test_plain_and_gzipped_old_and_new(tmp_path, old, name):
    assert read(tmp_path / name, busy_trace(old=old))["gpu"]["busy_ns"] == 1800 * US


def test_a_bare_array_of_events(tmp_path):
    assert read(tmp_path / "t.json", busy_trace()["traceEvents"])["gpu"]["busy_ns"] == 1800 * US


def test_whole_microseconds_since_the_epoch(tmp_path):
    made = busy_trace()
    for row in made["traceEvents"]:
        row["ts"] += 1_700_000_000_000_000
    assert read(tmp_path / "t.json", made)["gpu"]["busy_ns"] == 1800 * US


def test_decimal_microseconds_since_the_epoch_keep_their_nanoseconds(tmp_path):
    text = json.dumps(trace(iteration(1_700_000_000_000_000, 0, kernels=1)))
    text = text.replace('"ts": 1700000000000030, "dur": 50', '"ts": 1700000000000030.123, "dur": 50.456')
    made = read(tmp_path / "t.json", text)
    assert made["kernels"][0]["total_ns"] == 50_456
    assert made["gpu"]["idle_by_cause_ns"]["host"] == 30_123  # a float would have made 30,250 of it


def test_the_unit_that_the_viewer_shows_is_not_the_unit_of_the_times(tmp_path):
    assert read(tmp_path / "t.json", busy_trace() | {"displayTimeUnit": "ns"})["gpu"]["busy_ns"] == 1800 * US


def test_correlation_joins_and_external_id_does_not(tmp_path):
    """In old traces "External id" of a kernel is its correlation; of an operation it is something else."""
    made = busy_trace()
    for row in made["traceEvents"]:
        if row["cat"] == "cpu_op":
            row["args"]["External id"] = 1  # the first kernel's
    found = read(tmp_path / "t.json", made)
    assert [op["name"] for op in found["ops"]] == ["aten::add"]
    assert found["ops"][0]["gpu_rows"] == 36
    assert found["kernels"][0]["op_path"][-1] == "aten::add"


def test_flows_without_a_start_metadata_and_unknown_phases_are_passed_over(tmp_path):
    made = busy_trace()
    made["traceEvents"] += [
        {"ph": "f", "id": 3, "ts": 1, "cat": "async_cpu_to_gpu", "name": "ac2g", "bp": "e"},
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "/home/ada/secret"}},
        {"ph": "i", "s": "g", "name": "Record Window End", "ts": 5},
        {"name": "no phase"}, 7, None, "text", [],
    ]  # fmt: skip
    assert read(tmp_path / "t.json", made)["gpu"]["busy_ns"] == 1800 * US


def test_triton_launches_are_calls_of_the_driver(tmp_path):
    made = busy_trace()
    for row in made["traceEvents"]:
        if row["cat"] == "cuda_runtime":
            row |= {"cat": "cuda_driver", "name": "cuLaunchKernelEx"}
        if row["cat"] == "kernel":
            row["name"] = "triton_poi_fused_add_0"
    found = read(tmp_path / "t.json", made)
    assert found["gpu"]["idle_by_cause_ns"]["host"] == found["gpu"]["idle_ns"]
    assert found["kernels"][0]["origin"] == "compiled"


def test_rocm_names_and_copies_without_bytes(tmp_path):
    made = busy_trace()
    for row in made["traceEvents"]:
        row["name"] = row["name"].replace("cudaLaunchKernel", "hipLaunchKernel")
    made["traceEvents"].append(event("gpu_memcpy", "CopyHostToDevice", 1300, 20, tid=0, stream=0, kind="x", correlation=0))
    found = read(tmp_path / "t.json", made)
    assert found["copies"] == [
        {
            "kind": "H2D",
            "count": 1,
            "bytes": None,
            "time_ns": 20 * US,
            "exposed_ns": 20 * US,
            "pageable_count": 0,
            "rate_Bps": None,
        }
    ]


@pytest.mark.parametrize(
    ("name", "kind", "pageable"),
    [
        ("Memcpy HtoD (Pageable -> Device)", "H2D", 1),
        ("Memcpy HtoD (Pinned -> Device)", "H2D", 0),
        ("Memcpy DtoH (Device -> Pageable)", "D2H", 1),
        ("Memcpy DtoD (Device -> Device)", "D2D", 0),
        ("Memcpy PtoP (Device -> Device)", "P2P", 0),
    ],
)
def test_the_direction_of_a_copy_and_its_memory_stand_in_its_name(tmp_path, name, kind, pageable):
    copy = event("gpu_memcpy", name, 1300, 20, stream=7, correlation=77, bytes=4096)
    found = read(tmp_path / "t.json", trace([*iteration(1000, 0), copy, *iteration(1400, 1)]))
    assert [(c["kind"], c["pageable_count"], c["bytes"]) for c in found["copies"]] == [(kind, pageable, 4096)]


def test_a_row_that_starts_before_its_launch_ended_has_no_negative_delay(tmp_path):
    made = trace(
        [
            event("user_annotation", "stitchweb_iter", 1000, 2000),
            event("cuda_runtime", "cudaLaunchKernel", 1010, 30, correlation=5),
            event("kernel", "k()", 1020, 900, stream=7, correlation=5),
        ]
    )
    assert read(tmp_path / "t.json", made)["kernels"][0]["queue_delay_median_ns"] == 0


def test_durations_that_were_rounded_to_nothing_are_counted(tmp_path):
    made = busy_trace()
    made["traceEvents"].append(event("kernel", "tiny()", 1300, 0, stream=7, correlation=888))
    found = read(tmp_path / "t.json", made)
    assert ("tiny", 1, 0) in [(k["key"], k["count"], k["total_ns"]) for k in found["kernels"]]


def test_events_without_a_usable_time_are_left_out_and_said(tmp_path):
    made = busy_trace()
    bad = [{"ts": None}, {"dur": -5}, {"ts": "yesterday"}, {"ts": 1e300}, {"ts": True}, {"dur": [1]}]
    made["traceEvents"] += [event("kernel", "bad()", 1300, 10) | b for b in bad]
    found = read(tmp_path / "t.json", made)
    assert "6 events without a usable time were left out" in found["source"]["warnings"]
    assert found["gpu"]["busy_ns"] == 1800 * US


def test_nan_and_infinity_in_arguments_do_no_harm(tmp_path):
    made = busy_trace()
    for row in made["traceEvents"]:
        row["args"]["est. achieved occupancy %"] = math.nan
        row["args"]["memory bandwidth (GB/s)"] = math.inf
    found = read(tmp_path / "t.json", made)
    assert found["kernels"][0]["est_occupancy_pct"] is None
    json.dumps(found, allow_nan=False)


def test_the_profilers_schedule_names_the_iterations_where_nothing_else_does(tmp_path):
    made = busy_trace()
    for number, row in enumerate(r for r in made["traceEvents"] if r["cat"] == "user_annotation"):
        row["name"] = f"ProfilerStep#{number}"
    found = read(tmp_path / "t.json", made)
    assert (found["target"]["iterations"], found["window"]["basis"]) == (12, "annotation")


def test_without_iterations_the_whole_trace_counts_and_nothing_is_sure(tmp_path):
    made = busy_trace()
    made["traceEvents"] = [row for row in made["traceEvents"] if row["cat"] != "user_annotation"]
    found = read(tmp_path / "t.json", made)
    assert found["window"]["basis"] == "first_to_last"
    assert {v["confidence"] for v in found["verdicts"]} == {"low"}
    assert any("no measured range" in w for w in found["source"]["warnings"])


def test_a_range_of_ones_own_can_be_named_and_its_first_left_out(tmp_path):
    made = busy_trace()
    for row in made["traceEvents"]:
        row["name"] = row["name"].replace("stitchweb_iter", "step")
    found = read(tmp_path / "t.json", made, range_name="step", warmup=2)
    assert found["target"]["iterations"] == 10
    with pytest.raises(UnreadableProfile, match=r"No range of the file is called 'stop'; the file has step\."):
        read(tmp_path / "t.json", made, range_name="stop")
    with pytest.raises(UnreadableProfile, match="12 measured ranges, and 12 were to be left out"):
        read(tmp_path / "t.json", made, range_name="step", warmup=12)


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([event("cuda_profiler_range", "r", 1, 2)], "metric mode"),
        ([event("cuda_runtime", "cudaLaunchKernel", 1, 2, correlation=1)], "lost the GPU's events"),
    ],
    ids=["metric mode", "kernels lost"],
)
def test_launches_without_kernels_are_no_profile_of_a_gpu(tmp_path, rows, reason):
    found = read(tmp_path / "t.json", trace([*rows, event("cpu_op", "aten::add", 1, 2)]))
    assert found["source"]["status"] == "unavailable"
    assert reason in found["source"]["reason"]
    assert found["verdict"]["class"] == "insufficient"


def test_a_trace_of_a_processor_alone(tmp_path):
    rows = []
    for n in range(5):
        at = 1000 + 1000 * n
        rows += [
            event("user_annotation", "stitchweb_iter", at, 900),
            event("cpu_op", "aten::linear", at + 10, 800),
            event("cpu_op", "aten::addmm", at + 20, 700),
            event("cpu_op", "own:fused", at + 830, 50),
        ]
    made = trace(rows, ERROR=["no device"])
    made["deviceProperties"] = []
    found = read(tmp_path / "t.json", made)
    assert found["gpu"] is None
    assert found["device"]["kind"] == "cpu"
    assert [(k["short_name"], k["total_ns"]) for k in found["kernels"]] == [
        ("addmm", 3500 * US), ("linear", 500 * US), ("(python and dispatch)", 250 * US), ("fused", 250 * US),
    ]  # fmt: skip
    assert found["tree"]["value_ns"] == 900 * US
    assert found["figures"]["cpu"]["status"] == "unavailable"


def test_several_devices_the_busiest_is_summarised_and_the_rest_is_said(tmp_path):
    made = busy_trace()
    made["traceEvents"].append(event("kernel", "other()", 1300, 20, device=1, stream=7, correlation=500))
    found = read(tmp_path / "t.json", made)
    assert "other" not in [k["key"] for k in found["kernels"]]
    assert "1 more devices were used and are not summarised" in found["source"]["warnings"]


def test_paths_of_the_machine_are_in_no_name(tmp_path):
    made = busy_trace()
    made |= {"hostname": "ada-laptop", "trace_name": "/home/ada/t.json", "env": {"TOKEN": "s3cret"}}
    made["traceEvents"] += [
        event("python_function", "/home/ada/my project/net.py(12): forward", 1000, 100),
        event("cpu_op", "load /home/ada/weights.pt", 1000, 90),
        event("cpu_op", "C:\\Users\\ada\\net.py", 1500, 90),
    ]
    text = json.dumps(read(tmp_path / "t.json", made))
    assert not [word for word in ("ada", "s3cret", "laptop", "/home") if word in text]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"traceEvents": [{"ph": "X", "ts": 1', "truncated"),
        ('{"traceEvents": [{"ph": "X"}', "truncated"),
        ('{"traceEvents": [{"ph": "X"}, ]}', "not valid JSON at character"),
        ('{"traceEvents": [{"ph": "X"} {"ph": "X"}]}', "not valid JSON at character"),
        ('{"traceEvents": []} trailing', "not valid JSON at character"),
        ('{"traceEvents": []}', "no complete events"),
        ('{"traceEvents": 3}', "no traceEvents"),
        ('{"shared": {"frames": []}}', "no traceEvents"),
        ('[{"ph": "B", "name": "x", "ts": 1}]', "no complete events"),
        ('[{"ph": "X", "cat": "blink", "name": "x", "ts": 1, "dur": 1}]', "another tool"),
        ("[" * 100_000, "nests its values too deeply"),
        ('{"a":' * 100_000, "nests its values too deeply"),
        ('{"traceEvents": [{"ts": ' + "9" * 5000 + "}]}", "not valid JSON"),
    ],
)
def test_what_is_no_trace_is_refused_with_a_reason(tmp_path, text, says):
    with pytest.raises(UnreadableProfile, match=says):
        read(tmp_path / "t.json", text)
