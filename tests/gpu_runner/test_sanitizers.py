"""Sanitizers see what no comparison of results does: one element too far, memory given back, a race that went well."""

from __future__ import annotations

import errno
import time

import pytest

from gpu_runner.contracts import PROTOCOLS, CandidateFiles, CheckTask, Limits, Source
from gpu_runner.device import device_of
from gpu_runner.job import Job
from gpu_runner.sandbox import Sandbox, SandboxSpec
from gpu_runner.sandbox.spec import Tool
from gpu_runner.sanitizers import findings, reports, run, tools
from gpu_runner.sanitizers.findings import Found, Sanitized, What
from gpu_runner.sanitizers.run import NO_THREADS, NO_TIME, OPENMP, Sanitizers
from gpu_runner.session import Session

REFERENCE = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2 + 1
def get_inputs():
    return [torch.randn(64, 33)]
"""
PROGRAM = """
import ctypes, pathlib, torch
kernels = ctypes.CDLL(str(pathlib.Path(__file__).with_name("libkernels.so")))
class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        kernels.run(ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(y.data_ptr()), ctypes.c_int64(x.numel()))
        return y
"""
RIGHT = "for (int64_t i = 0; i < n; ++i) y[i] = x[i] * 2 + 1;"


def candidate(body: str) -> CandidateFiles:
    source = f'#include <cstdint>\n#include <thread>\nextern "C" void run(const float* x, float* y, int64_t n) {{\n{body}\n}}\n'
    return CandidateFiles(files={"model_new.py": PROGRAM, "kernels/run.cpp": source})


@pytest.fixture(scope="module")
def session():
    with Session() as made:
        yield made


@pytest.fixture
def sanitized(session):
    """sanitized(body) -> {tool: Sanitized}."""

    def work(body: str, wall_s: float = 300.0) -> dict[str, Sanitized]:
        task = CheckTask(target="cpu", source=Source(text=REFERENCE), candidate=candidate(body), protocol=PROTOCOLS["strict"])
        device, nodes = device_of("cpu")
        job = Job(device, task.limits, task.mode, task.precision, lambda _: None, lambda: False, nodes)
        reference, _ = session.peers(job, task.source)
        job.deadline = time.monotonic() + wall_s
        seen: list[Sanitized] = []
        made = Sanitizers(job, task, reference, "odd", "odd", seen.append).run()
        assert seen == made
        return {result.tool: result for result in made}

    return work


WRONG = {
    "one element too many read": (f"{RIGHT} volatile float z = x[n];", "heap-buffer-overflow", "read of size 4"),
    "one element too many written": (f"{RIGHT} y[n] = 0;", "heap-buffer-overflow", "write of size 4"),
    "memory that was given back": (
        f"volatile float* p = new float[8]; delete[] p; {RIGHT} y[0] += 0 * p[1];",
        "heap-use-after-free",
        "read of size 4",
    ),
    "past an array of its own": (
        f"float t[4]; {RIGHT} t[n % 5 + 3] = x[0]; y[0] += 0 * t[1];",
        "index out of bounds",
        "float [4]",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_a_memory_error_is_found_with_its_line_and_rejects(sanitized, what):
    body, kind, said = WRONG[what]
    found = sanitized(body)["address"]
    assert found.not_run == ""
    assert found.shape == "a batch of 33"
    first = found.found[0]
    assert (first.what, first.kind, first.file, first.line) == (What.MEMORY, kind, "kernels/run.cpp", 4)
    assert said in first.sentence
    offence = findings.offence([found])
    assert offence == ("address", first)
    assert "kernels/run.cpp:4" in findings.sentence(*offence)
    assert [row.passed for row in findings.rows([found])] == [False]


def test_undefined_behaviour_is_told_and_rejects_nothing(sanitized):
    found = sanitized(f"int a = 2147483000; for (int i = 0; i < n; ++i) a += i; {RIGHT} y[0] += a == 3;")["address"]
    assert [(f.what, f.kind, f.line) for f in found.found] == [(What.UNDEFINED, "signed integer overflow", 4)]
    assert findings.offence([found]) is None
    (row,) = findings.rows([found])
    assert row.passed is None
    assert "signed integer overflow in kernels/run.cpp:4" in row.note


def test_a_race_of_threads_is_found_whatever_the_result(sanitized):
    race = "float sum = 0; auto f = [&] { for (int i = 0; i < 99; ++i) sum += 1; };"
    found = sanitized(f"{race} std::thread a(f), b(f); a.join(); b.join(); {RIGHT}")["thread"]
    assert [(f.what, f.kind, f.file, f.line) for f in found.found] == [(What.RACE, "data race", "kernels/run.cpp", 4)]
    assert findings.offence([found]) is not None


HONEST = {
    "a plain loop": (RIGHT, NO_THREADS),
    "OpenMP": (f"\n#pragma omp parallel for\n{RIGHT}", OPENMP),
    "threads that share nothing": (
        "auto f = [&](int64_t s, int64_t e) { for (int64_t i = s; i < e; ++i) y[i] = x[i] * 2 + 1; };"
        "std::thread a(f, 0, n / 2), b(f, n / 2, n); a.join(); b.join();",
        "",
    ),
}


@pytest.mark.parametrize("what", HONEST)
def test_an_honest_program_is_not_suspected(sanitized, what):
    body, without_threads = HONEST[what]
    made = sanitized(body)
    assert [result.found for result in made.values()] == [[], []]
    assert made["address"].not_run == ""
    assert made["thread"].not_run == without_threads
    assert all(row.passed is not False for row in findings.rows(made.values()))


def test_strict_rejects_what_they_find_and_says_what_it_took_and_quick_does_not_ask(check):
    body = f"{RIGHT} volatile float z = x[n];"
    files = {path: text for path, text in candidate(body).files.items() if path != "model_new.py"}
    report = check(REFERENCE, PROGRAM, protocol="strict", kernels=files)
    assert (report.verdict, report.hack) == ("hack", "race_or_oob"), report.sentence
    assert "heap-buffer-overflow in kernels/run.cpp:4" in report.sentence
    assert 0 < report.sanitizers_s < report.seconds
    report = check(REFERENCE, PROGRAM, protocol="quick", kernels=files)
    assert (report.verdict, report.sanitizers_s) == ("verified", None), report.sentence
    assert not [row for row in report.rows if "sanitizer" in row.name]


def test_nothing_is_begun_that_the_time_left_does_not_allow(sanitized):
    assert {tool: result.not_run for tool, result in sanitized(RIGHT, 3.0).items()} == {"address": NO_TIME, "thread": NO_TIME}


def test_what_this_machine_lacks_is_named_and_nothing_is_claimed(sanitized, monkeypatch):
    def missing(tool: str) -> None:
        raise tools.NoTool("g++ has no libasan.so on this machine: install GCC's sanitizer libraries")

    monkeypatch.setattr(run, "preloaded", missing)
    made = sanitized(RIGHT)
    (row,) = findings.rows([made["address"]])
    assert row.not_run
    assert "libasan" in row.note


def test_a_program_that_dies_for_another_reason_proves_nothing(sanitized):
    found = sanitized("abort_without_a_declaration();")["address"]
    assert found.not_run.startswith("it does not build with it: kernels/run.cpp:4: ")
    assert found.found == []


PIPES = """
import os, stat
def tried(call, *arguments):
    try:
        call(*arguments)
    except OSError as error:
        return error.errno
    return 0
result = [tried(os.mkfifo, "/tmp/pipe"), tried(os.mknod, "/tmp/device", 0o600 | stat.S_IFCHR, os.makedev(1, 3))]
"""


@pytest.mark.parametrize(
    ("tool", "made"), [(None, False), (Tool(environment={"A": "b"}), False), (Tool(prefix=("env",)), True)]
)
def test_only_under_a_launcher_may_a_process_make_named_pipes_and_never_a_device(tool, made):
    spec = SandboxSpec(role="probe", limits=Limits(wall_s=60), tool=tool)
    with Sandbox.start(spec) as sandbox:
        pipe, device = sandbox.request("run", {"program": PIPES})["result"]
    assert (pipe, device) == (0 if made else errno.EPERM, errno.EPERM)


# The reports as text.

ELSEWHERE = """==7==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x62e0 at pc 0x7f bp 0x7f sp 0x7f
READ of size 16 at 0x62e0 thread T0
    #0 0x7f in at::native::add /pytorch/aten/src/add.cpp:5
    #1 0x7f in ffi_call (/lib/libffi.so.8+0x6b0c)

0x62e0 is located 0 bytes to the right of 40000-byte region [0x62e0,0x62e1)
allocated by thread T0 here:
    #0 0x7f in __interceptor_posix_memalign ../../../../src/libsanitizer/asan/asan_malloc_linux.cpp:145
    #1 0x7f in run kernels/run.cpp:9
"""


def test_memory_that_torch_broke_is_not_the_candidates_offence():
    (found,) = reports.address(ELSEWHERE, ["kernels/run.cpp"])
    assert (found.what, found.file) == (What.MEMORY, "")
    assert findings.offence([Sanitized("address", found=[found])]) is None
    (row,) = findings.rows([Sanitized("address", shape="the declared shapes", found=[found])])
    assert row.passed is None
    assert "outside of the candidate's sources" in row.note


def test_a_report_of_the_harness_file_names_is_not_taken_for_the_candidates():
    (found,) = reports.address(ELSEWHERE.replace("/pytorch/aten/src/add.cpp", "kernels/other.cpp"), ["kernels/run.cpp"])
    assert found.file == ""


# As compute-sanitizer 2025.3.1 writes them on an H200.
COMPUTE = {
    "memcheck": (
        """========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 4 bytes
=========     at scale(const float *, float *, long)+0x4f0 in run.cu:10
=========     by thread (0,0,0) in block (1000,0,0)
=========     Access to 0x7fd9ba9f4200 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7fd9ba8fa200 of size 1024000 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: run in model_new.py:8
=========
""",
        (What.MEMORY, "invalid global read", 10),
    ),
    "initcheck": (
        """========= Uninitialized __global__ memory read of size 4 bytes
=========     at scale(const float *, float *, long)+0x3e0 in run.cu:9
=========     by thread (64,0,0) in block (8,0,0)
=========     Address 0x7f8574e02104
""",
        (What.UNINITIALISED, "uninitialized global memory read", 9),
    ),
    "racecheck": (
        "========= Error: Race reported between Write access at scale(const float *, float *, long)+0x100 in run.cu:7\n",
        (What.RACE, "race in shared memory", 7),
    ),
}


@pytest.mark.parametrize("tool", COMPUTE)
def test_a_report_of_compute_sanitizer_leads_to_its_line(tool):
    text, (what, kind, line) = COMPUTE[tool]
    (found,) = reports.compute(text, tool, ["kernels/run.cu"])
    assert (found.what, found.kind, found.file, found.line) == (what, kind, "kernels/run.cu", line)
    (other,) = reports.compute(text, tool, ["kernels/other.cu"])
    assert (other.file, other.line) == ("", 0)


def test_what_compute_sanitizer_says_of_itself_is_no_report():
    text = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
    text += "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors)\n"
    assert [reports.compute(text, tool, ["kernels/run.cu"]) for tool in COMPUTE] == [[], [], []]


def test_a_flood_of_text_is_read_in_bounded_time_and_number():
    text = "".join(f"kernels/run.cpp:{n}:1: runtime error: signed integer overflow: 1 + 2\n" for n in range(5000))
    assert len(reports.address(text, ["kernels/run.cpp"])) == reports.MAX_FOUND
    (found,) = reports.compute("=========" * 20_000 + "Error hazard" * 5000, "racecheck", ["kernels/run.cu"])
    assert (found.file, len(found.kind) <= 60, len(found.sentence) <= 200) == ("", True, True)


def test_seconds_are_those_of_the_longest_tool_and_absent_without_any():
    assert findings.seconds([]) is None
    assert findings.seconds([Sanitized("thread", not_run="no")]) is None
    assert findings.seconds([Sanitized("address", 1.5), Sanitized("thread", 2.25, found=[Found(What.RACE, "r", "")])]) == 2.25
