"""Files that mean harm, or are merely broken: one clear sentence, in bounded time and memory, never a traceback."""

from __future__ import annotations

import contextlib
import gzip
import json
import random
import subprocess
import sys
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpu_runner.profile import LIMITS, Limits, UnreadableProfile, read_profile
from gpu_runner.profile.rows import MAX_DEPTH, Row, nest, op_times, walk
from tests.gpu_runner.profile_files import SAMPLES, busy_trace, event, nsys_file, nsys_rows, trace, write
from tools.fuzz_profiles import mutate, seeds

SMALL = Limits(seconds=10)


def refused(path, limits=SMALL):
    with pytest.raises(UnreadableProfile) as caught:
        read_profile([path], limits=limits)
    sentence = str(caught.value)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    return sentence


def test_a_gzip_bomb_stops_at_its_limit(tmp_path):
    squeeze = zlib.compressobj(9, zlib.DEFLATED, 31)
    path = tmp_path / "bomb.json.gz"
    with path.open("wb") as file:
        file.write(squeeze.compress(b'{"traceEvents": ['))
        for _ in range(64):
            file.write(squeeze.compress(b" " * (1 << 20)))
        file.write(squeeze.flush())
    assert path.stat().st_size < 100_000
    assert "larger than 16 MB unpacked" in refused(path, replace(SMALL, text_bytes=16 << 20))


def test_one_value_without_an_end_stops_at_its_limit(tmp_path):
    path = tmp_path / "t.json"
    path.write_text('{"traceEvents": [{"name": "' + "x" * (3 << 20))
    assert "One value of the file is larger than 1 MB" in refused(path, replace(SMALL, value_chars=1 << 20))


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        ({"events": 1000}, "more than 1,000 events"),
        ({"rows": 1000}, "more than 1,000 rows"),
        ({"seconds": 0.0}, "took longer than 0 s"),
        ({"file_bytes": 1000}, "larger than 0 GB"),
    ],
)
def test_too_many_events_rows_seconds_and_bytes(tmp_path, limits, says):
    rows = [event("cpu_op", "aten::add", n, 1) for n in range(5000)]
    assert says in refused(write(tmp_path / "t.json", trace(rows)), replace(LIMITS, **limits))


def test_an_export_with_too_many_rows_or_too_little_time(tmp_path):
    path = nsys_file(tmp_path / "r.sqlite", nsys_rows(2000))
    assert "more than 1,000 rows" in refused(path, replace(LIMITS, rows=1000))
    assert "took longer" in refused(path, replace(LIMITS, seconds=0.0))


def test_a_table_of_counters_that_is_too_large(tmp_path):
    assert "too large" in refused(SAMPLES / "ncu_raw.csv", replace(LIMITS, cells=5000))


def test_operations_inside_operations_inside_operations(tmp_path):
    """Deeper than Python's own stack."""
    rows = [event("cpu_op", f"op{n}", n, 10_000 - 2 * n) for n in range(4000)]
    for values in (rows, [event("user_annotation", "stitchweb_iter", -1, 10_002), *rows]):
        found = read_profile([write(tmp_path / "t.json", trace(values))])
        json.dumps(found)


@pytest.mark.parametrize("gpu", [True, False], ids=["GPU", "CPU"])
def test_thousands_of_stacks_that_are_all_different(tmp_path, gpu):
    """Neither the summary nor the memory grows with them."""
    rows = [event("user_annotation", "stitchweb_iter", 0, 3_000_000)]
    for n in range(3000):
        at = 1000 * n
        rows += [event("cpu_op", f"op {n} {d} " + "x" * 900, at + d, 900 - 2 * d) for d in range(30)]
        if gpu:
            rows.append(event("cuda_runtime", "cudaLaunchKernel", at + 100, 5, correlation=n + 1))
            rows.append(event("kernel", f"k{n}<" + "y" * 900 + ">()", at + 200, 50, stream=7, correlation=n + 1))
    found = read_profile([write(tmp_path / "t.json", trace(rows))])
    assert len(json.dumps(found)) < 8 << 20
    assert len(found["kernels"]) == 60
    assert found["tree"]["value_ns"] == (3000 * 50_000 if gpu else 3_000_000_000)


def test_rows_of_a_sandbox_may_nest_as_deep_as_they_like():
    rows = [Row("cpu_op", "op", n, 100_000 - 2 * n, "1") for n in range(20_000)]
    (root,) = nest(rows)
    assert sum(1 for _ in walk(root)) == MAX_DEPTH
    assert op_times(rows, {"op"}) == {}


def test_parents_that_are_each_others_parents(tmp_path):
    rows = [event("python_function", f"f{n}", 10, 100, **{"Python id": n, "Python parent id": 1 - n}) for n in range(2)]
    read_profile([write(tmp_path / "t.json", trace(rows))])


def test_ranges_that_cross_each_other(tmp_path):
    rows = [event("user_annotation", "stitchweb_iter", 100 * n, 150) for n in range(9)]
    rows += [event("kernel", "k()", 100 * n + 20, 200, stream=n % 3, correlation=n + 1) for n in range(9)]
    found = read_profile([write(tmp_path / "t.json", trace(rows))])
    gpu = found["gpu"]
    assert gpu["busy_ns"] + gpu["idle_ns"] == found["window"]["wall_ns"]


def test_times_before_the_epoch_and_beyond_the_years(tmp_path):
    rows = [event("kernel", "k()", -5_000, 100), event("kernel", "k()", 3.9e15, 100), event("kernel", "k()", -1e18, 5)]
    found = read_profile([write(tmp_path / "t.json", trace(rows))])
    assert found["kernels"][0]["count"] == 2
    json.dumps(found, allow_nan=False)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("empty.json", b"", "empty"), ("a.zip", b"PK\x03\x04rest", "zip archive"), ("a.out", b"\x7fELF\2", "a program"),
        ("t.nsys-rep", b"\1\2\3", "nsys export --type=sqlite"), ("t.qdstrm", b"\1\2\3", "QdstrmImporter"),
        ("t.bin", b"\1\2\0\3", "binary"), ("t.txt", b"hello\n", "no table of Nsight Compute"),
        ("t.json.gz", b"\x1f\x8b\x08garbage", "damaged"),
        ("t.json.gz", gzip.compress(b"[]" * 9, mtime=0)[:-9], "not valid JSON"),
        ("t.json.gz", gzip.compress(b'{"traceEvents": [{"a": 1', mtime=0)[:-9], "truncated"),
        ("t.sqlite", b"SQLite format 3\0" + bytes(84), "cannot be read"), ("t.sqlite", b"SQLite format 3\0", "cannot be read"),
    ],
)  # fmt: skip
def test_what_is_no_report_is_named(tmp_path, name, content, says):
    path = tmp_path / name
    path.write_bytes(content)
    assert says in refused(path)


def test_a_file_that_is_not_there_or_a_folder(tmp_path):
    assert "No such file" in refused(tmp_path / "gone.json")
    assert "directory" in refused(tmp_path)


def test_two_reports_of_a_program_are_one_too_many(tmp_path):
    path = write(tmp_path / "t.json", busy_trace())
    with pytest.raises(UnreadableProfile, match="Two of the files"):
        read_profile([path, path])


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    return seeds(tmp_path_factory.mktemp("seeds"))


@given(seed=st.integers(0, 2**32), reader=st.sampled_from(["nsys", "kineto", "ncu", "details", "stats"]))
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_changed_report_is_read_or_refused(known, tmp_path, seed, reader):
    generator = random.Random(seed)
    path = tmp_path / "case"
    path.write_bytes(mutate(generator.choice(known[reader]), generator))
    with contextlib.suppress(UnreadableProfile):
        json.dumps(read_profile([path], limits=SMALL), allow_nan=False)


@given(st.binary(max_size=400))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_read_or_refused(tmp_path, data):
    path = tmp_path / "case"
    path.write_bytes(data)
    refused(path)


def run(*arguments):
    command = [sys.executable, "-m", "gpu_runner", "profile", "import", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2], timeout=120)


def test_the_command_prints_the_summary_or_one_sentence(tmp_path):
    path = write(tmp_path / "t.json", busy_trace())
    done = run(path, "--json", "--speedscope", tmp_path / "flame.json", "--perfetto", tmp_path / "line.json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["schema"] == "stitchweb.profile/1"
    flame = json.loads((tmp_path / "flame.json").read_text())
    (profile,) = flame["profiles"]
    assert sum(profile["weights"]) == profile["endValue"] == 150_000
    assert {len(profile["samples"]), len(profile["weights"])} == {1}
    line = json.loads((tmp_path / "line.json").read_text())
    assert sum(e["dur"] for e in line["traceEvents"] if e["ph"] == "X" and e["pid"] == 2) == pytest.approx(180)
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    done = run(broken)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: The file ends in the middle of its JSON, at character 1: it is truncated, export it again.\n"
    assert "Host-bound" in run(path).stdout
