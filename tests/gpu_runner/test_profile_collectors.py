"""The profilers' command lines, and the flows around them with tools that behave as the real ones were seen to.

No GPU is here: the tools are small shell programs, started and bounded as real ones are.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from gpu_runner.profile import installed, read_profile, tools
from gpu_runner.profile.recording import ThisMachine, record_ncu, record_nsys
from gpu_runner.profile.tools import ToolCommand
from tests.gpu_runner.profile_files import SAMPLES

OUT = Path("/tmp/x/report")
PROGRAM = ("python", "runner.py")


def flags(command):
    return set(command.argv)


def test_nsys_records_cuda_alone_inside_the_range_and_lets_the_program_end():
    command = tools.nsys_profile("nsys", OUT, PROGRAM)
    assert command.argv[:4] == ("nsys", "profile", "-o", "/tmp/x/report")
    assert command.argv[-2:] == PROGRAM
    assert {
        "--trace=cuda,nvtx", "--sample=none", "--cpuctxsw=none", "--cuda-graph-trace=node",
        "--capture-range=cudaProfilerApi", "--capture-range-end=stop", "--kill=none",
    } <= flags(command)  # fmt: skip
    assert command.leaves == Path("/tmp/x/report.nsys-rep")
    assert command.seconds == tools.NSYS_SECONDS


def test_of_a_refused_command_line_the_complaint_is_said_and_not_where_help_is():
    said = "unrecognised option '--discard-environment=true'\n\nTry 'nsys profile --help' for more information.\n"
    assert tools.last_words(said) == " (unrecognised option '--discard-environment=true')"
    outcome = tools.nsys_outcome(1, (), said)
    assert outcome.status == "unavailable"
    assert "unrecognised option" in outcome.sentence


def test_nsys_exports_what_it_recorded():
    command = tools.nsys_export("nsys", OUT)
    assert command.argv[1:3] == ("export", "--type=sqlite")
    assert command.argv[-1] == "/tmp/x/report.nsys-rep"
    assert command.leaves == Path("/tmp/x/report.sqlite")


def test_a_name_with_dots_keeps_them():
    assert tools.nsys_export("nsys", Path("/tmp/run.1/cand.2")).leaves.name == "cand.2.sqlite"


def test_ncu_reads_one_kernel_in_the_measured_stretch_with_clocks_left_alone():
    command = tools.ncu_profile("ncu", OUT, PROGRAM, "my::ns::k$1.x", skip=2)
    text = " ".join(command.argv)
    assert "--clock-control none --cache-control none --profile-from-start off" in text
    assert r"--kernel-name regex:^k\$1\.x$ --launch-skip 2 --launch-count 3 --kill yes" in text
    assert command.argv.count("--section") == len(tools.SECTIONS)
    assert command.argv[-2:] == PROGRAM
    assert "--target-processes all" in text


def test_pages_are_printed_in_the_c_locale_and_base_units():
    raw, details = (tools.ncu_page("ncu", OUT, page) for page in ("raw", "details"))
    assert dict(raw.environment) == {"LC_ALL": "C"}
    assert "--print-fp" in raw.argv
    assert "--print-fp" not in details.argv
    assert {"--csv", "--print-units", "base"} <= flags(raw) & flags(details)
    assert raw.leaves.name == "report.raw.csv"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("\tlibdw.so.1 => not found\n\tlibc.so.6 => /lib/libc.so.6 (0x1)\n\tlibelf.so.1 => not found\n",
         ["libdw.so.1", "libelf.so.1"]),
        ("QdstrmImporter: error while loading shared libraries: libdw.so.1: cannot open shared object file", ["libdw.so.1"]),
        ("all is well", []),
    ],
)  # fmt: skip
def test_missing_libraries_are_found_in_what_is_printed(text, wanted):
    assert tools.missing_libraries(text) == wanted


@pytest.mark.parametrize(
    ("status", "left", "output", "reason", "words"),
    [
        (0, [".nsys-rep"], "", "", ""),
        (143, [".nsys-rep"], "", "program_failed", "ended with 143"),
        (
            0,
            [".qdstrm"],
            "Unable to retrieve the importer version",
            "no_importer",
            "no QdstrmImporter is beside it",
        ),
        (
            0,
            [".qdstrm"],
            "error while loading shared libraries: libdw.so.1: cannot",
            "no_importer",
            "libdw.so.1 (package libdw1 in Debian and Ubuntu) is missing",
        ),
        (0, [], "", "no_report", "never opened its measured range"),
        (1, [], "", "failed", "ended with 1"),
    ],
)
def test_what_a_recording_came_to(status, left, output, reason, words):
    outcome = tools.nsys_outcome(status, left, output)
    assert (outcome.status, outcome.reason) == ("measured" if not reason else "unavailable", reason)
    assert words in outcome.sentence


@pytest.mark.parametrize(
    ("status", "left", "output", "reason"),
    [
        (0, [".ncu-rep"], "==PROF== Disconnected", ""),
        (137, [".ncu-rep"], "", ""),
        (0, [], "==WARNING== No kernels were profiled.", "no_match"),
        (1, [], "==ERROR== ERR_NVGPUCTRPERM", "no_permission"),
        (1, [], "LibraryNotLoaded", "no_library"),
        (1, [], "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED", "subscribed"),
        (9, [], "", "failed"),
    ],
)
def test_what_a_reading_of_counters_came_to(status, left, output, reason):
    outcome = tools.ncu_outcome(status, left, output)
    assert (outcome.status, outcome.reason) == ("measured" if not reason else "unavailable", reason)
    assert bool(outcome.sentence) == bool(reason)


def tool(folder, name, body):
    """A program of a few lines in the place of a profiler."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + body)
    path.chmod(0o755)
    return path


NSYS = """
case "$1" in
  profile) shift; while [ "$1" != -o ]; do shift; done; {record} ;;
  export) shift; while [ "$1" != -o ]; do shift; done; cp {sample} "$2" ;;
esac
"""


def installation(tmp_path, record, importer=""):
    """A folder as Nsight's: the command line's programs in one folder, the importer in another."""
    host = tmp_path / "host"
    nsys = tool(host, "target-linux-x64/nsys", NSYS.format(record=record, sample=SAMPLES / "nsys.sqlite"))
    if importer:
        tool(host, "linux-desktop-glibc_2_11_3-x64/QdstrmImporter", importer)
    return str(nsys)


def test_a_whole_installation_gives_an_export_that_can_be_read(tmp_path):
    nsys = installation(tmp_path, 'touch "$2.nsys-rep"')
    path, outcome = record_nsys(nsys, tmp_path / "r.1", ("true",), ThisMachine())
    assert outcome.status == "measured"
    assert path == tmp_path / "r.1.sqlite"
    assert read_profile([path], range_name="step")["gpu"]["kernel_count"] == 100


def test_a_raw_recording_is_imported_by_the_importer_beside_it(tmp_path):
    nsys = installation(tmp_path, 'touch "$2.qdstrm"', 'cp "$2" "$4"')
    path, outcome = record_nsys(nsys, tmp_path / "r", ("true",), ThisMachine())
    assert (outcome.status, path) == ("measured", tmp_path / "r.sqlite")


def test_an_importer_that_cannot_start_names_the_library_it_misses(tmp_path):
    broken = 'echo "$0: error while loading shared libraries: libdw.so.1: cannot open shared object file" >&2; exit 127'
    nsys = installation(tmp_path, 'touch "$2.qdstrm"', broken)
    path, outcome = record_nsys(nsys, tmp_path / "r", ("true",), ThisMachine())
    assert (path, outcome.reason) == (None, "no_importer")
    wanted = "libdw.so.1 (package libdw1 in Debian and Ubuntu) is missing. Install it, then profile again."
    assert outcome.sentence == f"QdstrmImporter cannot start: {wanted}"


@pytest.mark.parametrize(("end", "said"), [("kill -ABRT $$", "by signal 6"), ("echo bad; exit 3", "with 3 (bad)")])
def test_an_importer_that_fails_is_not_said_to_be_missing(tmp_path, end, said):
    nsys = installation(tmp_path, 'touch "$2.qdstrm"', end)
    path, outcome = record_nsys(nsys, tmp_path / "r", ("true",), ThisMachine())
    assert (path, outcome.reason) == (None, "no_importer")
    assert outcome.sentence.endswith(f"the QdstrmImporter beside it ended {said}.")


def test_no_importer_no_tool_and_no_export_have_reasons_of_their_own(tmp_path):
    nsys = installation(tmp_path, 'touch "$2.qdstrm"')
    assert record_nsys(nsys, tmp_path / "r", ("true",), ThisMachine())[1].reason == "no_importer"
    assert record_nsys(str(tmp_path / "nowhere"), tmp_path / "r", ("true",), ThisMachine())[1].reason == "not_installed"
    other = tool(tmp_path, "a/b/nsys", 'case "$1" in profile) touch "$3.nsys-rep";; *) exit 3;; esac')
    assert record_nsys(str(other), tmp_path / "s", ("true",), ThisMachine())[1].reason == "no_export"


def test_ncu_gives_both_pages_or_the_reason(tmp_path):
    body = f"""
case "$1" in
  -f) touch "$3.ncu-rep" ;;
  --import) case "$5" in raw) cat {SAMPLES / "ncu_raw.csv"} ;; *) cat {SAMPLES / "ncu_details.csv"} ;; esac ;;
esac
"""
    pages, outcome = record_ncu(str(tool(tmp_path, "ncu", body)), tmp_path / "k", ("true",), "gemm", ThisMachine())
    assert outcome.status == "measured"
    assert [page.name for page in pages] == ["k.raw.csv", "k.details.csv"]
    assert len(read_profile(pages)["kernels"]) == 4
    denied = tool(tmp_path, "denied", "echo '==ERROR== ERR_NVGPUCTRPERM'; exit 1")
    assert record_ncu(str(denied), tmp_path / "d", ("true",), "gemm", ThisMachine()) == (
        [],
        tools.ncu_outcome(1, [], "ERR_NVGPUCTRPERM"),
    )


def test_a_tool_that_never_ends_is_ended_with_everything_it_started(tmp_path):
    mark = tmp_path / "alive"
    endless = tool(tmp_path, "endless", f"(while :; do date > {mark}; sleep 0.05; done) & wait")
    ran = ThisMachine().run(ToolCommand((str(endless),), 0.5, tmp_path / "r"))
    assert ran.status is None
    mark.unlink(missing_ok=True)
    time.sleep(0.3)
    assert not mark.exists()


def test_a_tool_sees_nothing_of_our_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("API_KEY", "s3cret")
    ran = ThisMachine().run(ToolCommand((shutil.which("env"),), 10, tmp_path / "r", (("LC_ALL", "C"),)))
    assert "s3cret" not in ran.output
    assert "LC_ALL=C" in ran.output


def test_a_tool_is_found_with_the_folders_that_it_needs(tmp_path):
    made = tool(tmp_path, "nsight-compute/2025.3.1/host/target-linux-x64/nsys", "")
    found = installed.nsys(str(made.parent))
    assert found is not None
    assert found.path == str(made)
    assert tmp_path / "nsight-compute" in found.folders
    made.chmod(0o644)
    assert installed.ncu(str(made.parent)) == installed.ncu(str(tmp_path / "nowhere"))
