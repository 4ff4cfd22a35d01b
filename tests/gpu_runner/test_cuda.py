"""On a CUDA device: native entries, whose kernels ran, launches that fail, compute-sanitizer."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_runner.contracts import (
    PROTOCOLS,
    AnalyseTask,
    CandidateFiles,
    CheckReport,
    CheckTask,
    Label,
    Source,
    TimeTask,
    TimingReport,
)
from gpu_runner.device import cuda_target, device_of
from gpu_runner.job import Job
from gpu_runner.sanitizers.findings import Sanitized, What, offence
from gpu_runner.sanitizers.run import Sanitizers
from gpu_runner.session import Session
from gpu_runner.verify import read_candidate

pytestmark = pytest.mark.gpu
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
REFERENCE = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2 + 1
def get_inputs():
    return [torch.randn(512, 1000)]
"""
PROGRAM = """
import ctypes, pathlib, torch
kernels = ctypes.CDLL(str(pathlib.Path(__file__).with_name("libkernels.so")))
def run(x):
    y = torch.empty_like(x)
    at = lambda t: ctypes.c_void_p(t.data_ptr())
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    kernels.run(at(x), at(y), ctypes.c_int64(x.numel()), stream)
    return y
class ModelNew(torch.nn.Module):
    def forward(self, x):
        {forward}
"""
KERNEL = """
#include <cstdint>
__global__ void scale(const float* x, float* y, int64_t n) {
    int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    BODY
}
extern "C" void run(const float* x, float* y, int64_t n, cudaStream_t stream) {
    LAUNCH
}
"""
RIGHT = "if (i < n) y[i] = x[i] * 2 + 1;"
LAUNCH = "scale<<<(n + 255) / 256, 256, 0, stream>>>(x, y, n);"


def candidate(body: str = RIGHT, launch: str = LAUNCH, forward: str = "return run(x)") -> CandidateFiles:
    source = KERNEL.replace("BODY", body).replace("LAUNCH", launch)
    return CandidateFiles(files={"model_new.py": PROGRAM.format(forward=forward), "kernels/run.cu": source})


def target() -> str:
    found = cuda_target()
    assert found is not None, "these tests need an NVIDIA GPU"
    return found


@pytest.fixture
def judged(hands):
    def work(files: CandidateFiles, reference: str = REFERENCE, protocol: str = "quick") -> CheckReport:
        task = CheckTask(target=target(), source=Source(text=reference), candidate=files, protocol=PROTOCOLS[protocol])
        report = hands.perform(task)
        assert isinstance(report, CheckReport)
        return report

    return work


def rows(report: CheckReport) -> dict[str, str]:
    return {row.name: f"{row.value} {row.note}" for row in report.rows}


def test_the_native_example_is_right_and_timed(hands, judged):
    reference = (EXAMPLES / "layernorm_gelu.py").read_text()
    files = read_candidate(EXAMPLES / "native" / "layernorm_gelu_cuda")
    report = judged(files, reference, "strict")
    assert report.verdict == "verified", (report.sentence, report.log)
    assert report.coverage == 1.0
    assert [row.passed for row in report.rows if row.name.startswith("compute-sanitizer")] == [True] * 3, rows(report)
    timing = hands.perform(
        TimeTask(target=target(), source=Source(text=reference), candidate=files, protocol=PROTOCOLS["quick"])
    )
    assert isinstance(timing, TimingReport)
    assert timing.verdict is None, timing.sentence


SHARES = {
    "all its own": ("return run(x)", 1.0, 1.0),
    "half of it torch's": ("return run(x * 1.0)", 0.2, 0.8),
    "decoration": ("run(x[:1].contiguous()); return x * 2 + 1", 0.0, 0.0),
    "none of its own": ("return x * 2 + 1", 0.0, 0.0),
}


@pytest.mark.parametrize("what", SHARES)
def test_the_share_of_own_kernels_is_measured_on_the_device(judged, what):
    forward, least, most = SHARES[what]
    report = judged(candidate(forward=forward))
    assert report.verdict == "verified", (report.sentence, report.log)
    assert report.coverage is not None, rows(report)
    assert least <= report.coverage <= most, rows(report)
    assert (Label.NO_OWN_KERNELS in report.labels) is (most == 0.0)


FAILED = {
    "too many threads": LAUNCH.replace("256, 0,", "2048, 0,"),
    "too much shared memory": LAUNCH.replace("256, 0,", "256, 1 << 20,"),
}


@pytest.mark.parametrize("what", FAILED)
def test_a_launch_that_fails_is_seen_whatever_the_result_looks_like(judged, what):
    report = judged(candidate(launch=f"{LAUNCH} {FAILED[what]}"))
    assert (report.verdict, report.hack) == ("incorrect", "silent_failure"), (report.sentence, rows(report))
    assert "cudaErrorInvalid" in report.sentence


def test_an_error_that_the_program_clears_is_its_own_affair(judged):
    report = judged(candidate(launch=f"{LAUNCH} {FAILED['too many threads']} cudaGetLastError();"))
    assert report.verdict == "verified", report.sentence


def test_what_hides_the_inputs_is_found_where_tensors_lie_on_two_devices(hands):
    """A scalar that the program makes is the host's, what it is added to the device's."""
    body = "return torch.cat([x.clamp(5, 5), x.clamp(5, 5)]) + torch.tensor([1.0]).expand(1024, 1000).to(x.device)"
    source = Source(text=REFERENCE.replace("return x * 2 + 1", body))
    found = hands.perform(AnalyseTask(target=target(), source=source))
    assert found.refusal is None
    assert found.nulls, "the answer is the same whatever the inputs say"


@pytest.fixture(scope="module")
def session():
    with Session() as made:
        yield made


@pytest.fixture
def sanitized(session):
    def work(body: str, launch: str = LAUNCH) -> dict[str, Sanitized]:
        task = CheckTask(
            target=target(), source=Source(text=REFERENCE), candidate=candidate(body, launch), protocol=PROTOCOLS["strict"]
        )
        device, nodes = device_of(task.target)
        job = Job(device, task.limits, task.mode, task.precision, lambda _: None, lambda: False, nodes)
        reference, _ = session.peers(job, task.source)
        return {found.tool: found for found in Sanitizers(job, task, reference, "odd", "one", lambda _: None).run()}

    return work


# One program for all tools, since each takes seconds to start. The write comes last: after it there is nothing to run.
PLANTED = """
    __shared__ float s[256];
    s[threadIdx.x] = i;
    float t = s[(threadIdx.x + 33) % 256];
    if (i < n) y[i] = x[i] * 2 + 1 + 0.0f * y[(i + 1) % n] + (t == -1 ? 1 : 0);
    if (i == n && x[n] != 12345.0f) y[0] = 1;
"""
WANTED = {"racecheck": (What.RACE, {7, 8}), "initcheck": (What.UNINITIALISED, {9}), "memcheck": (What.MEMORY, {10})}


def test_compute_sanitizer_finds_planted_errors_with_their_lines(sanitized):
    made = sanitized(PLANTED, LAUNCH.replace("(n + 255) / 256", "(n + 256) / 256"))
    assert {name: found.not_run for name, found in made.items()} == dict.fromkeys(made, "")
    for tool, (what, lines) in WANTED.items():
        places = {found.line for found in made[tool].found if found.what is what and found.file == "kernels/run.cu"}
        assert places & lines, (tool, made[tool])
        assert (offence([made[tool]]) is not None) is (what is not What.UNINITIALISED)


def test_compute_sanitizer_says_nothing_of_an_honest_kernel(sanitized):
    made = sanitized(RIGHT)
    assert {name: (found.not_run, found.found) for name, found in made.items()} == dict.fromkeys(made, ("", []))
