"""Exports and statistics of Nsight Systems."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest

from gpu_runner.profile import UnreadableProfile, read_profile
from tests.gpu_runner.profile_files import PROCESS, SAMPLES, STRINGS, THREAD, nsys_file, nsys_rows

US = 1000


def read(path, **options):
    return read_profile([path], range_name="step", **options)


@pytest.mark.parametrize("version", [2, 3])
def test_times_causes_and_copies_of_both_schemas(tmp_path, version):
    found = read(nsys_file(tmp_path / "r.sqlite", nsys_rows(), version=version))
    assert found["window"] == {"start_ns": 0, "end_ns": 4000 * US, "wall_ns": 4000 * US, "basis": "nvtx"}
    assert found["gpu"]["busy_ns"] == 4 * 500 * US
    # Before the first copy the host was at work; later ones waited for the synchronise; the end has no next row.
    assert found["gpu"]["idle_by_cause_ns"] == {
        "sync": 3 * 495 * US, "host": 310 * US, "launch": 0, "dependency": 0, "switch": 4 * 5 * US, "uvm": 0,
        "unknown": 185 * US,
    }  # fmt: skip
    assert found["gpu"]["copy_exposed_ns"] == 800 * US
    assert [(c["kind"], c["count"], c["bytes"], c["pageable_count"]) for c in found["copies"]] == [("H2D", 4, 4 << 20, 4)]
    assert found["copies"][0]["rate_Bps"] == pytest.approx((1 << 20) / 200e-6)
    assert [v["class"] for v in found["verdicts"]] == ["sync-bound", "transfer-bound"]
    assert found["source"]["format_version"] == ("3.25.0" if version == 3 else "2.9.1")


def test_names_are_joined_by_number_and_lose_the_version_of_the_call(tmp_path):
    found = read(nsys_file(tmp_path / "r.sqlite", nsys_rows()))
    assert [(k["key"], k["name"], k["regs"], k["grid"]) for k in found["kernels"]] == [
        ("my::kernel", "void my::kernel<(int)4>(float *)", 40, [4, 1, 1])
    ]
    assert {c["name"] for c in found["api"]} == {"cudaLaunchKernel", "cudaMemcpyAsync", "cudaStreamSynchronize"}


def test_text_of_a_range_stands_in_its_row_or_by_number(tmp_path):
    rows = nsys_rows()
    for mark in rows["NVTX_EVENTS"][:2]:
        del mark["textId"]
        mark["text"] = "step"
    assert read(nsys_file(tmp_path / "r.sqlite", rows))["target"]["iterations"] == 4


def test_ranges_that_are_started_and_ended_count_and_other_events_do_not(tmp_path):
    rows = nsys_rows()
    for mark in rows["NVTX_EVENTS"]:
        mark["eventType"] = 60
    rows["NVTX_EVENTS"].append({**rows["NVTX_EVENTS"][0], "eventType": 34})
    found = read(nsys_file(tmp_path / "r.sqlite", rows))
    assert found["target"]["iterations"] == 4
    assert found["kernels"][0]["op_path"] == []  # such ranges may cross each other, so they are nobody's parents


def test_a_correlation_of_another_process_is_another_correlation(tmp_path):
    rows = nsys_rows()
    other = [{**c, "globalTid": THREAD + (5 << 24), "start": c["start"] - 400_000, "end": c["end"] - 400_000}
             for c in rows["CUPTI_ACTIVITY_KIND_RUNTIME"]]  # fmt: skip
    plain = read(nsys_file(tmp_path / "a.sqlite", rows))
    rows["CUPTI_ACTIVITY_KIND_RUNTIME"] = other + rows["CUPTI_ACTIVITY_KIND_RUNTIME"] + other
    both = read(nsys_file(tmp_path / "b.sqlite", rows))
    assert both["gpu"] == plain["gpu"]
    assert (THREAD & ~0xFFFFFF) == PROCESS


def test_rows_without_their_call_and_unified_memory(tmp_path):
    rows = nsys_rows()
    for kernel in rows["CUPTI_ACTIVITY_KIND_KERNEL"]:
        kernel["correlationId"] += 5000  # a trimmed capture
    for copy in rows["CUPTI_ACTIVITY_KIND_MEMCPY"]:
        copy |= {"correlationId": 0, "copyKind": 11, "srcKind": None, "dstKind": None}
    found = read(nsys_file(tmp_path / "r.sqlite", rows))
    causes = found["gpu"]["idle_by_cause_ns"]
    assert causes["uvm"] == (310 + 3 * 495) * US
    assert causes["unknown"] == (4 * 5 + 185) * US
    assert found["copies"][0]["kind"] == "UVM_H2D"
    assert "prefetch-managed" in found["verdict"]["suggestions"]


def test_unified_memory_that_moves_under_a_kernel_is_counted_as_its_wait(tmp_path):
    rows = nsys_rows()
    for copy, kernel in zip(rows["CUPTI_ACTIVITY_KIND_MEMCPY"], rows["CUPTI_ACTIVITY_KIND_KERNEL"][::-1], strict=True):
        copy |= {"correlationId": 0, "copyKind": 11, "start": kernel["start"] + 60_000, "end": kernel["end"] - 90_000}
    found = read(nsys_file(tmp_path / "r.sqlite", rows))
    assert found["gpu"]["uvm_overlap_pct"] == pytest.approx(50.0)
    assert "transfer-bound" in [v["class"] for v in found["verdicts"]]


def test_tables_that_are_not_there(tmp_path):
    rows = nsys_rows()
    only_kernels = {"CUPTI_ACTIVITY_KIND_KERNEL": rows["CUPTI_ACTIVITY_KIND_KERNEL"]}
    found = read_profile([nsys_file(tmp_path / "r.sqlite", only_kernels)])
    assert found["gpu"]["kernel_count"] == 4
    assert found["device"]["name"] == ""
    assert found["figures"]["ops"]["status"] == "unavailable"


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ({"CUPTI_ACTIVITY_KIND_RUNTIME": nsys_rows()["CUPTI_ACTIVITY_KIND_RUNTIME"]}, "launches but no kernels"),
        ({"NVTX_EVENTS": nsys_rows()["NVTX_EVENTS"]}, "no GPU events"),
        ({"CUPTI_ACTIVITY_KIND_GRAPH_TRACE": [{"severity": 1}]}, "--cuda-graph-trace=node"),
    ],
    ids=["calls alone", "ranges alone", "graphs as a whole"],
)
def test_a_report_without_kernels_is_unavailable_and_says_why(tmp_path, rows, reason):
    found = read_profile([nsys_file(tmp_path / "r.sqlite", rows)])
    assert found["source"]["status"] == "unavailable"
    assert reason in found["source"]["reason"]
    assert found["verdict"]["class"] == "insufficient"


DOUBT = {"severity": 3, "text": "Not all CUDA events might have been collected from /home/ada/train.py"}


def test_the_tools_own_complaints_are_counted_not_quoted(tmp_path):
    rows = nsys_rows()
    rows["DIAGNOSTIC_EVENT"] = [DOUBT, {"severity": 1, "text": "Process 12 was launched"}]
    del rows["CUPTI_ACTIVITY_KIND_KERNEL"][1]
    found = read(nsys_file(tmp_path / "r.sqlite", rows))
    assert found["source"]["warnings"] == ["nsys reports 1 warnings or errors of its own, and that events were lost"]
    assert found["verdict"]["class"] == "insufficient"


def test_events_that_might_be_missing_are_looked_for(tmp_path):
    rows = nsys_rows()
    rows["DIAGNOSTIC_EVENT"] = [DOUBT]
    found = read(nsys_file(tmp_path / "r.sqlite", rows))
    assert found["source"]["warnings"][0].endswith("but no launch of the measured iterations is without its kernel")
    assert found["verdict"]["class"] != "insufficient"
    rows["NVTX_EVENTS"] = []  # without iterations nobody knows what should be there
    assert read_profile([nsys_file(tmp_path / "s.sqlite", rows)])["verdict"]["class"] == "insufficient"


def test_host_user_environment_and_command_line_are_left_in_the_report(tmp_path):
    path = nsys_file(tmp_path / "r.sqlite", nsys_rows(), strings={**STRINGS, 1: "void k(int) [/home/ada/secret/k.cu]"})
    with closing(sqlite3.connect(path)) as base, base:
        base.execute("create table TARGET_INFO_SYSTEM_ENV (name text, value text)")
        base.execute("insert into TARGET_INFO_SYSTEM_ENV values ('HF_TOKEN', 's3cret')")
        base.execute("create table PROCESSES (globalPid int, name text)")
        base.execute("insert into PROCESSES values (1, '/home/ada/bin/python')")
    text = json.dumps(read(path))
    assert not [word for word in ("ada", "s3cret", "HF_TOKEN", "/home") if word in text]


def test_a_file_in_a_folder_with_odd_signs_in_its_name(tmp_path):
    folder = tmp_path / "a?b#c%20d"
    folder.mkdir()
    assert read(nsys_file(folder / "r?mode=rw.sqlite", nsys_rows()))["target"]["iterations"] == 4


def test_reading_leaves_the_file_and_its_folder_as_they_are(tmp_path):
    path = nsys_file(tmp_path / "r.sqlite", nsys_rows())
    before = path.read_bytes()
    path.chmod(0o400)
    read(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["r.sqlite"]


def _hostile(path, *statements):
    with closing(sqlite3.connect(path)) as base, base:
        for statement in statements:
            base.execute(statement)
    return path


def test_a_view_in_the_place_of_a_table_is_not_opened(tmp_path):
    rows = nsys_rows()
    kernels = rows.pop("CUPTI_ACTIVITY_KIND_KERNEL")
    path = nsys_file(tmp_path / "r.sqlite", rows)
    endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select i as start, i as end from n"
    _hostile(path, f"create view CUPTI_ACTIVITY_KIND_KERNEL as {endless}")
    assert read(path)["gpu"]["kernel_count"] == 0
    assert kernels


def test_a_table_that_computes_its_columns_is_not_opened(tmp_path):
    rows = nsys_rows()
    rows.pop("NVTX_EVENTS")
    path = nsys_file(tmp_path / "r.sqlite", rows)
    _hostile(path, 'create table NVTX_EVENTS (start int, "end" as (length(hex(zeroblob(9)))), eventType int)',
             "insert into NVTX_EVENTS (start, eventType) values (1, 59)")  # fmt: skip
    found = read_profile([path])
    assert found["gpu"]["kernel_count"] == 4
    assert found["target"]["iterations"] is None


def test_a_value_beyond_the_limit_is_refused_before_it_is_in_memory(tmp_path):
    path = nsys_file(tmp_path / "r.sqlite", nsys_rows())
    _hostile(path, "update StringIds set value = printf('%.*c', 8000000, 'x') where id = 1")
    with pytest.raises(UnreadableProfile, match="larger than 1 MB"):
        read(path)


def test_values_of_the_wrong_kind_are_no_rows(tmp_path):
    path = nsys_file(tmp_path / "r.sqlite", nsys_rows())
    _hostile(
        path,
        "insert into CUPTI_ACTIVITY_KIND_KERNEL (start, end) values ('soon', 'later'), (9, 3), (x'00', 1e300), (-9e18, 9e18)",
        "insert into CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, streamId, correlationId, globalPid, demangledName,"
        " gridX) values (4100000, 4200000, 'gpu', x'ff', 'c', 1.5, 'name', 9e99)",
        "insert into StringIds values (77, x'fffe')",
    )
    found = read(path)
    assert found["gpu"]["kernel_count"] == 5
    assert "unnamed" in {k["key"] for k in found["kernels"]}


@pytest.mark.parametrize("cut", [0.1, 0.5, 0.9])
def test_a_truncated_file(tmp_path, cut):
    path = nsys_file(tmp_path / "r.sqlite", nsys_rows(200))
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * cut)])
    with pytest.raises(UnreadableProfile, match=r"cannot be read \(.*\): export the report again"):
        read(path)


def test_a_database_of_something_else(tmp_path):
    path = _hostile(tmp_path / "shop.sqlite", "create table customers (name text)")
    with pytest.raises(UnreadableProfile, match="no table of Nsight Systems"):
        read_profile([path])


def test_statistics_with_lines_around_them(tmp_path):
    found = read_profile([SAMPLES / "nsys_stats.csv"])
    assert [(k["short_name"], k["count"], k["total_ns"]) for k in found["kernels"][:2]] == [
        ("gemm f32 64x64x8", 20, 3_461_102), ("gemm f32 128x128x8", 20, 2_079_404),
    ]  # fmt: skip
    assert [(c["kind"], c["count"], c["time_ns"]) for c in found["copies"]] == [
        ("H2D", 26, 8_244_135), ("D2H", 20, 36_673), ("memset", 20, 16_032),
    ]  # fmt: skip
    assert found["gpu"] is None
    assert found["figures"]["gpu"]["status"] == "unavailable"


@pytest.mark.parametrize(
    ("text", "kernels", "copies"),
    [
        (  # 2021: other headers, no median
            "Time(%),Total Time (ns),Instances,Average,Minimum,Maximum,Name\n90.0,1800,2,900.0,800,1000,k(int)\n",
            [("k", 2, 1800)], [],
        ),
        (  # microseconds, a shape before the name, older and unified labels, a size in another unit, lines between
            "SKIPPED: x.sqlite does not contain CUDA kernel data.\n\n"
            "Time (%),Total Time (us),Instances,Avg (us),Med (us),Min (us),Max (us),StdDev (us),GridXYZ,BlockXYZ,Name\n"
            '90.0,"1,800.5",2,900,900,800,1000,5,   1    1    1,  32    1    1,"void k<int, 3>(int, int)"\n\n'
            "Processing [/tmp/x.sqlite] with [/opt/reports/cuda_gpu_mem_time_sum.py]... \n"
            "Time (%),Total Time (ns),Count,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Operation\n"
            "60,100,1,1,1,1,1,0,[CUDA memcpy HtoD]\n40,50,1,1,1,1,1,0,[CUDA Unified Memory memcpy DtoH]\n"
            "20,25,1,1,1,1,1,0,[CUDA memcpy Unified Host-to-Device]\n\n"
            "Total (GB),Count,Avg (GB),Med (GB),Min (GB),Max (GB),StdDev (GB),Operation\n"
            "0.002,1,1,1,1,1,0,[CUDA memcpy HtoD]\n",
            [("k", 2, 1_800_500)], [("H2D", 100, 2_000_000), ("UVM_D2H", 50, None), ("UVM_H2D", 25, None)],
        ),
    ],
    ids=["2021", "2022 and a unit of its own"],
)  # fmt: skip
def test_statistics_of_other_years(tmp_path, text, kernels, copies):
    path = tmp_path / "s.csv"
    path.write_text(text)
    found = read_profile([path])
    assert [(k["key"], k["count"], k["total_ns"]) for k in found["kernels"]] == kernels
    assert [(c["kind"], c["time_ns"], c["bytes"]) for c in found["copies"]] == copies
