"""The profilers around a program inside of its sandbox: a real boundary, a real program, tools that behave as the real ones."""

from __future__ import annotations

import shutil
import time
from contextlib import ExitStack

import pytest

from gpu_runner.contracts import CandidateFiles, Limits, Mode, Precision, ProfileTask, Source
from gpu_runner.job import Job
from gpu_runner.profile import installed
from gpu_runner.profile.collectors import Collectors
from gpu_runner.profile.installed import Installed
from gpu_runner.profile.subject import subject
from gpu_runner.session import Session
from tests.gpu_runner.profile_files import SAMPLES
from tests.gpu_runner.programs import PLAIN, REFERENCE
from tests.gpu_runner.test_profile_collectors import tool

# The tools run the program that stands behind their options, as the real ones do, and leave what those leave.
TO_PROGRAM = 'while case "$1" in */python*) false;; *) true;; esac; do shift; done'
NSYS = """
here=$(dirname "$0")
case "$1" in
  profile) out=$3; {program}; "$@" || exit $?; {record} ;;
  export) while [ "$1" != -o ]; do shift; done; cp "$here/nsys.sqlite" "$2" ;;
esac
"""
NCU = """
here=$(dirname "$0")
case "$1" in
  -f) out=$3; {program}; "$@" || exit $?; touch "$out.ncu-rep" ;;
  --import) cat "$here/ncu_$5.csv" ;;
esac
"""


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """tools(nsys=…, ncu=…): these programs are what is installed, in a folder that only the sandbox's tool shows."""

    tmp_path.chmod(0o755)

    def install(**bodies: str) -> None:
        for name in ("nsys.sqlite", "ncu_raw.csv", "ncu_details.csv"):
            shutil.copy(SAMPLES / name, tmp_path / name)
        for name in ("nsys", "ncu"):
            found = None
            if name in bodies:
                found = Installed(str(tool(tmp_path, name, bodies[name])), (tmp_path,))
            monkeypatch.setattr(installed, name, lambda found=found: found)

    return install


@pytest.fixture(scope="module")
def session():
    with Session() as made:
        yield made


@pytest.fixture
def collectors(session):
    """collectors(candidate): a fresh set around the program in it, with all that was said."""
    said = []

    def work(candidate: str = "", limits: Limits | None = None) -> Collectors:
        files = CandidateFiles(files={"model_new.py": candidate}) if candidate else None
        task = ProfileTask(target="cpu", source=Source(text=REFERENCE), candidate=files)
        job = Job("cpu", limits or Limits(wall_s=60), Mode.EVAL, Precision.AS_REFERENCE, said.append, lambda: False)
        return Collectors(opened.enter_context(subject(job, task, session)))

    work.said = said
    with ExitStack() as opened:
        yield work


def outcomes(made: Collectors) -> list[tuple[str, str, str]]:
    return [(step.tool, step.outcome.status, step.outcome.reason) for step in made.done]


@pytest.mark.parametrize("candidate", ["", PLAIN])
def test_nsys_runs_around_the_program_inside_of_the_sandbox(tools, collectors, candidate):
    tools(nsys=NSYS.format(program=TO_PROGRAM, record='touch "$out.nsys-rep"'))
    made = collectors(candidate)
    trace = made.nsys(3)
    assert outcomes(made) == [("nsys", "measured", "")], made.done[0].outcome.sentence
    assert len([row for row in trace.gpu if row.kind == "kernel"]) == 100
    assert "Nsight Systems: measured" in collectors.said[-1].payload["text"]


def test_a_tool_sees_the_processors_and_nothing_else_of_the_machine(tools, collectors):
    known = '[ -d /sys/devices/system/cpu/cpu0 ] && [ "$(echo /sys/*)" = /sys/devices ] && [ ! -e /sys/devices/system/node ]'
    known += ' || exit 7; touch "$out.nsys-rep"'
    tools(nsys=NSYS.format(program=TO_PROGRAM, record=known))
    made = collectors()
    made.nsys(3)
    assert outcomes(made) == [("nsys", "measured", "")], made.done[0].outcome.sentence


def test_a_program_that_fails_under_the_tool_is_the_reason(tools, collectors):
    tools(nsys=NSYS.format(program=TO_PROGRAM, record='touch "$out.nsys-rep"'))
    made = collectors(PLAIN.replace("F.gelu(self.norm(x))", "x.no_such_method()"))
    assert made.nsys(3) is None
    assert outcomes(made) == [("nsys", "unavailable", "failed")]
    assert "no_such_method" in made.done[0].outcome.sentence


def test_a_raw_recording_without_its_importers_library_names_the_package(tools, collectors, tmp_path):
    tools(nsys=NSYS.format(program="true", record='touch "$out.qdstrm"').replace('"$@" || exit $?;', ""))
    nsys = tmp_path / "target-linux-x64" / "nsys"
    shutil.copy(tmp_path / "nsys", tool(tmp_path, "target-linux-x64/nsys", ""))
    missing = 'echo "$0: error while loading shared libraries: libdw.so.1: cannot open shared object file" >&2; exit 127'
    tool(tmp_path, "linux-desktop-glibc_2_11_3-x64/QdstrmImporter", missing)
    installed.nsys = lambda: Installed(str(nsys), (tmp_path,))
    made = collectors()
    assert made.nsys(3) is None
    assert outcomes(made) == [("nsys", "unavailable", "no_importer")]
    assert "libdw.so.1 (package libdw1 in Debian and Ubuntu)" in made.done[0].outcome.sentence


def test_ncu_gives_the_counters_of_the_kernels_that_are_named(tools, collectors):
    tools(ncu=NCU.format(program=TO_PROGRAM))
    made = collectors(PLAIN)
    found = made.ncu(["ampere_sgemm"])
    assert outcomes(made) == [("ncu", "measured", "")], made.done[0].outcome.sentence
    assert all(values["compute_sol_pct"] is not None for values in found.values())
    assert len(found) == 4


def test_what_one_kernel_may_not_be_counted_for_is_not_tried_for_the_next(tools, collectors):
    tools(ncu='echo "==ERROR== ERR_NVGPUCTRPERM"; exit 1')
    made = collectors()
    assert made.ncu(["one", "two", "three"]) == {}
    assert outcomes(made) == [("ncu", "unavailable", "no_permission")]


def test_a_tool_that_is_not_there_or_finds_no_time_is_said(tools, collectors):
    tools()
    made = collectors()
    assert made.nsys(3) is None
    assert made.ncu(["kernel"]) == {}
    assert outcomes(made) == [("nsys", "unavailable", "not_installed"), ("ncu", "unavailable", "not_installed")]
    made.subject.job.deadline = 0.0
    made.nsys(3)
    assert outcomes(made)[-1] == ("nsys", "unavailable", "no_time")


def test_a_tool_that_never_ends_is_ended_within_the_profiles_time(tools, collectors, monkeypatch):
    tools(nsys="while :; do sleep 0.1; done")
    made = collectors()
    monkeypatch.setattr("gpu_runner.profile.collectors.LEAST_S", 1.0)
    made.subject.job.deadline = time.monotonic() + 3
    assert made.nsys(3) is None
    assert outcomes(made) == [("nsys", "unavailable", "timed_out")]
    assert made.done[0].seconds < 3


def test_a_report_that_is_none_is_refused_with_its_reason(tools, collectors, tmp_path):
    tools(nsys=NSYS.format(program=TO_PROGRAM, record='touch "$out.nsys-rep"'))
    (tmp_path / "nsys.sqlite").write_bytes(b"SQLite format 3\0" + b"x" * 5000)
    made = collectors()
    assert made.nsys(3) is None
    assert outcomes(made) == [("nsys", "unavailable", "unreadable")]


SPEAKS = """
import pathlib, socket
ours = socket.create_server(("127.0.0.1", 0))
socket.create_connection(ours.getsockname())
outside = socket.socket().connect_ex(("192.0.2.1", 80)) == 0
print("spoke to itself, outside", outside, "secret", pathlib.Path("{secret}").exists())
"""


def test_a_tool_speaks_to_itself_and_reaches_neither_network_nor_files(tools, collectors, tmp_path):
    secret = tmp_path.parent / "secret"
    secret.write_text("x")
    (tmp_path / "speaks.py").write_text(SPEAKS.format(secret=secret))
    tools(nsys=f"python {tmp_path}/speaks.py; exit 9")
    made = collectors()
    assert made.nsys(3) is None
    wanted = "Nsight Systems ended with 9 and no report (spoke to itself, outside False secret False)."
    assert made.done[0].outcome.sentence == wanted
