"""Pages of Nsight Compute's counters."""

from __future__ import annotations

import csv
import io
import json
import sys

import pytest

from gpu_runner.profile import UnreadableProfile, counters, ncu, ncu_report, read_profile
from gpu_runner.profile.limits import Meter
from gpu_runner.profile.table import base, number
from tests.gpu_runner.profile_files import SAMPLES

FIXED = [
    "ID",
    "Process ID",
    "Process Name",
    "Host Name",
    "Kernel Name",
    "Context",
    "Stream",
    "Block Size",
    "Grid Size",
    "Device",
    "CC",
]
SOL = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
MEM = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"
TIME = "gpu__time_duration.sum"


def line(*cells):
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n").writerow(cells)
    return out.getvalue()


def row(name="k(int)", number=0):
    return [str(number), "578", "python3", "ada-laptop", name, "1", "7", "(128, 1, 1)", "(4, 1, 1)", "0", "9.0"]


def raw(metrics, units, *rows, names=None):
    """A raw page; `rows` are the cells of each launch."""
    text = line(*FIXED, *metrics) + line(*[""] * len(FIXED), *units)
    return text + "".join(line(*row((names or {}).get(n, "k(int)"), n), *cells) for n, cells in enumerate(rows))


def read(tmp_path, text, encoding="utf-8"):
    path = tmp_path / "k.csv"
    path.write_bytes(text.encode(encoding))
    return counters.counters(ncu.read_ncu(path, Meter()))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1024", 1024), ("1,024", 1024), ("196,456,177,859.63", 196456177859.63), ("0.5", 0.5), (".5", 0.5), ("1e3", 1000),
        ("-7", -7), ("1.024,5", 1024.5), ("3,5", 3.5), ("1\u202f024", 1024), ("", None), ("n/a", None), ("nan", None),
        ("inf", None),
        ("(128, 1, 1)", None), ("PolicySpread", None), ("1e999", None), ("9" * 61, None), ("1,02", 1.02), ("٣", None),
    ],
)  # fmt: skip
def test_what_is_a_number(text, value):
    assert number(text) == value


@pytest.mark.parametrize(
    ("value", "unit", "wanted"),
    [
        (105.09, "us", (105_090, "ns")), (1, "nsecond", (1, "ns")), (2, "usecond", (2000, "ns")), (3, "s", (3e9, "ns")),
        (1.92, "Gbyte/s", (1.92e9, "byte/s")), (1, "byte/second", (1, "byte/s")), (8, "Kbyte/block", (8000, "byte/block")),
        (1.95, "Ghz", (1.95e9, "hz")), (71, "%", (71, "%")), (4, "cycle", (4, "cycle")), (1, "inst/cycle", (1, "inst/cycle")),
    ],
)  # fmt: skip
def test_units_over_the_years(value, unit, wanted):
    found = base(value, unit)
    assert (pytest.approx(found[0]), found[1]) == wanted


def test_the_programs_own_lines_stand_around_the_table(tmp_path):
    page = raw([SOL, TIME], ["%", "ns"], ["71.4", "1,024"])
    text = '==PROF== Connected to process 5 (/usr/bin/python3)\nhello, world\n"quoted"\n"a","b"\n' + page
    text += '==WARNING== Unable to access\n"12","of","ours"\n==PROF== Disconnected\n'
    assert read(tmp_path, text)["k(int)"]["compute_sol_pct"] == 71.4


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_encodings(tmp_path, encoding):
    assert read(tmp_path, raw([SOL], ["%"], ["50"], names={0: "größe(int)"}), encoding)["größe(int)"]["compute_sol_pct"] == 50


def test_empty_and_short_cells_are_absent_not_zero(tmp_path):
    found = read(tmp_path, raw([SOL, MEM, TIME], ["%", "%", "ns"], ["", "n/a"]))["k(int)"]
    assert (found["compute_sol_pct"], found["memory_sol_pct"], found["duration_ns"], found["dram_bytes"]) == (None,) * 4


def test_of_several_launches_the_one_of_median_duration_stands_for_all(tmp_path):
    found = read(tmp_path, raw([SOL, TIME], ["%", "us"], ["10", "900"], ["30", "5"], ["20", "6"]))["k(int)"]
    assert (found["launches"], found["duration_ns"], found["compute_sol_pct"]) == (3, 6000, 20)


def test_a_header_that_names_a_column_twice(tmp_path):
    found = read(tmp_path, raw([SOL, SOL], ["%", "byte/s"], ["10", "900"]))["k(int)"]
    assert found["compute_sol_pct"] == 10


def details(rows, header_extra=()):
    names = [*FIXED, *header_extra, "Section Name", "Metric Name", "Metric Unit", "Metric Value", "Rule Name", "Rule Type",
             "Rule Description", "Estimated Speedup Type", "Estimated Speedup"]  # fmt: skip
    return line(*names) + "".join(line(*row(), *[""] * len(header_extra), *cells) for cells in rows)


def test_the_two_memory_throughputs_are_told_apart_by_their_units(tmp_path):
    text = details([
        ["GPU Speed Of Light Throughput", "Memory Throughput", "%", "55.5", ""],
        ["Memory Workload Analysis", "Memory Throughput", "Gbyte/s", "182.72", ""],
        ["GPU Speed Of Light Throughput", "Duration", "us", "105.09", ""],
    ])  # fmt: skip
    found = read(tmp_path, text)["k(int)"]
    assert found["memory_sol_pct"] == 55.5
    assert found["dram_rate_Bps"] == pytest.approx(182.72e9)
    assert found["dram_bytes"] == pytest.approx(182.72e9 * 105.09e-6, rel=1e-6)


@pytest.mark.parametrize("label", ["SOL SM", "SM [%]", "Compute (SM) Throughput"])
def test_labels_over_the_years(tmp_path, label):
    assert read(tmp_path, details([["GPU Speed Of Light", label, "%", "61", ""]]))["k(int)"]["compute_sol_pct"] == 61


def test_the_form_of_2020_with_twelve_columns_and_a_time(tmp_path):
    names = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Context", "Stream", "Section Name",
             "Metric Name", "Metric Unit", "Metric Value"]  # fmt: skip
    text = line(*names)
    text += line("0", "1", "p", "h", "k(int)", "2020-Jan-01", "1", "7", "GPU Speed Of Light", "SOL FB", "%", "12.5")
    assert read(tmp_path, text)["k(int)"]["dram_pct"] == 12.5


def test_rules_keep_their_words_and_lose_their_links(tmp_path):
    words = "Look at the L1/TEX section. See the guide (https://docs.nvidia.com/x/y#z) for more. "
    text = details([["Occupancy", "", "", "", "TheoreticalOccupancy", "OPT", words * 30, "local", "87.5"]])
    (rule,) = read(tmp_path, text)["k(int)"]["rules"]
    assert rule["message"].startswith("Look at the L1/TEX section. See the guide for more.")
    assert len(rule["message"]) <= 600
    assert rule["message"].endswith(".")
    assert (rule["type"], rule["speedup_pct"], rule["scope"]) == ("optimization", 87.5, "local")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n", "no permission to read the GPU's counters"),
        ("==PROF== Disconnected\n==WARNING== No kernels were profiled.\n", "profiled no kernel"),
        ("==ERROR== LibraryNotLoaded\n", "could not load its library"),
        ("nothing of the kind\n", "no table of Nsight Compute"),
        ('"ID","Kernel Name"\n', "no table of Nsight Compute"),
        ('"ID"' + ',"x"' * 300_000, "longer than 1 MB|no table"),
    ],
)
def test_what_holds_no_table_says_why(tmp_path, text, says):
    with pytest.raises(UnreadableProfile, match=says):
        read(tmp_path, text)


def test_every_metric_that_is_asked_for_is_kept():
    sass = {counters._SASS.format(letter + op) for letter in "fdh" for op in ("add", "mul", "fma")}
    wanted = set(counters._RAW) | {counters._STALL.format(reason) for reason in counters.STALLS} | sass
    assert [name for name in wanted if not ncu._READ.search(name)] == []


def test_a_report_of_an_h100_agrees_with_nvidias_own_roofline(tmp_path):
    """1,368 of 2,039 GB/s are 67.1 %, 1.2 FLOP per byte, ridge at 15.8: a published H100 PCIe report."""
    clock, dram_clock = 1.755e9, 1.593e9
    metrics = {
        "dram__bytes.sum.per_second": (1368e9, "byte/s"), "dram__bytes.sum.peak_sustained": (1280, "byte/cycle"),
        "dram__cycles_elapsed.avg.per_second": (dram_clock, "hz"), "smsp__cycles_elapsed.avg.per_second": (clock, "hz"),
        "sm__cycles_elapsed.avg.per_second": (clock, "hz"), TIME: (1e6, "ns"),
        "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum.per_cycle_elapsed": (400, "inst/cycle"),
        "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum.per_cycle_elapsed": (135, "inst/cycle"),
        "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum.per_cycle_elapsed": (0, "inst/cycle"),
        "sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained": (9177.66, "inst/cycle"),
    }  # fmt: skip
    page = raw(list(metrics), [u for _, u in metrics.values()], [str(v) for v, _ in metrics.values()])
    found = read(tmp_path, page)["k(int)"]
    assert found["dram_rate_Bps"] / found["dram_peak_Bps"] == pytest.approx(0.671, abs=5e-4)
    assert found["intensity"] == pytest.approx(1.2, abs=0.01)
    assert found["ridge"] == pytest.approx(15.8, abs=0.05)


def test_the_pages_of_one_report_are_put_together(tmp_path):
    found = read_profile([SAMPLES / "ncu_raw.csv", SAMPLES / "ncu_details.csv"])
    first = next(k for k in found["kernels"] if k["short_name"] == "gemm f32 128x128x8")
    assert first["counters"]["bank_conflicts"] == 3_142_186
    assert "TheoreticalOccupancy" in {rule["id"] for rule in first["counters"]["rules"]}
    assert "127.0.0.1" not in json.dumps(found)
    assert "python3" not in json.dumps(found)


def test_the_stalls_of_the_h200_sum_to_the_latency():
    """Within what two passes over one kernel differ by."""
    found = read_profile([SAMPLES / "ncu_raw.csv"])
    for kernel in found["kernels"]:
        values = kernel["counters"]
        assert sum(s["cycles"] for s in values["stalls"]) == pytest.approx(values["warp_latency"], rel=0.05)
        assert sum(s["share_pct"] for s in values["stalls"]) == pytest.approx(100, rel=0.05)


def test_the_flops_of_the_h200s_products_are_those_of_their_shapes():
    found = read_profile([SAMPLES / "ncu_raw.csv"])
    for kernel in found["kernels"]:
        if "gemm" in kernel["short_name"]:
            assert kernel["counters"]["flops"]["float32"] == pytest.approx(2 * 512 * 1024 * 4096, rel=2e-3)


def test_a_report_in_the_tools_own_format_needs_its_reader(tmp_path, monkeypatch):
    path = tmp_path / "k.ncu-rep"
    path.write_bytes(b"NVR\0" + bytes(100))
    monkeypatch.setattr(ncu_report, "available", lambda: False)
    with pytest.raises(UnreadableProfile, match="install ncu-report"):
        read_profile([path])


READER = """
class Metric:
    def __init__(self, value, unit): self.v, self.u = value, unit
    def value(self): return self.v
    def unit(self): return self.u
class Action:
    def name(self): return "void k<int>(int)"
    def metric_names(self): return ["sm__throughput.avg.pct_of_peak_sustained_elapsed", "gpu__time_duration.sum", "gone"]
    def metric_by_name(self, n): return {"g": Metric(5, "us"), "s": Metric(81.5, "%")}.get(n[0]) if n != "gone" else None
    def rule_results_as_dicts(self):
        return [{"rule_identifier": "SOLBottleneck", "section_identifier": "SpeedOfLight",
                 "rule_message": {"title": "High", "message": "Look.", "type": 2},
                 "speedup_estimation": {"type": 2, "speedup": 3.5}}]
class Range:
    def num_actions(self): return 1
    def action_by_idx(self, j): return Action()
class Report:
    def num_ranges(self): return 1
    def range_by_idx(self, i): return Range()
def load_report(path):
    if open(path, "rb").read(8)[4:] == b"loop":
        while True: pass
    if open(path, "rb").read(8)[4:] == b"dies": __import__("os").abort()
    return Report()
"""


def fake_reader(tmp_path, monkeypatch):
    """NVIDIA's wheel may not be shipped: a module with its interface takes its place in the reader's own process."""
    (tmp_path / "ncu_report.py").write_text(READER)
    monkeypatch.setattr(ncu_report, "available", lambda: True)
    monkeypatch.setattr(ncu_report, "_SCRIPT", f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n" + ncu_report._SCRIPT)


def test_nvidias_reader_works_in_a_process_of_its_own(tmp_path, monkeypatch):
    fake_reader(tmp_path, monkeypatch)
    path = tmp_path / "k.ncu-rep"
    path.write_bytes(b"NVR\0" + bytes(100))
    (kernel,) = read_profile([path])["kernels"]
    assert (kernel["counters"]["compute_sol_pct"], kernel["counters"]["duration_ns"]) == (81.5, 5000)
    assert kernel["counters"]["rules"][0]["speedup_pct"] == 3.5
    assert "ncu_report" not in sys.modules


@pytest.mark.parametrize(("content", "says"), [(b"dies", "could not read the report"), (b"loop", "longer than 1 s")])
def test_a_reader_that_dies_or_never_ends(tmp_path, monkeypatch, content, says):
    fake_reader(tmp_path, monkeypatch)
    monkeypatch.setattr(ncu_report, "SECONDS", 1)
    path = tmp_path / "k.ncu-rep"
    path.write_bytes(b"NVR\0" + content)
    with pytest.raises(UnreadableProfile, match=says):
        read_profile([path])
