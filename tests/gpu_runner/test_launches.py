"""Whose kernels ran: names that a process tells against the names in the library that was built here."""

from __future__ import annotations

import pytest

from gpu_runner import launches
from gpu_runner.build import build_library
from gpu_runner.build_commands import compiler_version
from gpu_runner.contracts import BuildTask, CandidateFiles

KERNELS = ("scale(float const*, float*, long)", "void tile<float, 4>(float*)", "plain(float*)")


def seen(*rows: tuple[str, str, int, int]) -> launches.Launches:
    found = launches.parse([list(row) for row in rows], KERNELS)
    assert found is not None
    return found


def test_the_share_is_own_kernels_time_over_all_device_time():
    found = seen(
        ("kernel", "scale(float const*, float*, long)", 2, 300),
        ("kernel", "void tile<float,4>(float*)", 1, 100),  # another demangler's spaces
        ("kernel", "plain", 1, 100),  # with C linkage there are no parameters
        ("kernel", "void at::native::vectorized_elementwise_kernel<4>()", 1, 400),
        ("memcpy", "Memcpy DtoD (Device -> Device)", 1, 100),
    )
    assert launches.share(found) == 0.5
    value, note = launches.said(found)
    assert value == "50% of the device's time"
    assert note.startswith("4 of 6 launches: scale(float const*")


def test_a_name_that_only_begins_like_an_own_one_is_not_its():
    found = seen(("kernel", "scale(float const*, float*, int)", 1, 100), ("kernel", "plainer", 1, 100))
    assert launches.share(found) == 0.0
    assert launches.said(found)[0] == "none"


def test_no_activity_is_a_finding_and_no_zero():
    assert launches.share(seen()) is None
    assert launches.said(seen())[0] == "no activity recorded"


@pytest.mark.parametrize(
    "rows",
    [
        None,
        {},
        [1],
        [["kernel", "a", 1]],
        [["other", "a", 1, 1]],
        [["kernel", "a", -1, 1]],
        [["kernel", "a", 1, True]],
        [["kernel", "a", 1, 2**60]],
        [["kernel", "a", 1, 1]] * 3000,
    ],
)
def test_an_answer_that_our_code_cannot_have_sent_is_none(rows):
    assert launches.parse(rows, KERNELS) is None


SOURCE = """
extern "C" __global__ void plain(float* x) { x[threadIdx.x] += 1; }
static __global__ void hidden(float* x, int n) { x[threadIdx.x] += n; }
template <typename T, int N> __global__ void tile(T* x) { x[threadIdx.x] += N; }
namespace a { namespace { __global__ void inner(float4* x) { x[threadIdx.x].x += 1; } } }
__device__ float no_kernel(float x) { return x; }
void scale(float* x) { x[0] = 1; }
extern "C" void run(float* x, cudaStream_t stream) {
    plain<<<1, 32, 0, stream>>>(x);
    hidden<<<1, 32, 0, stream>>>(x, 3);
    tile<float, 4><<<1, 32, 0, stream>>>(x);
    a::inner<<<1, 32, 0, stream>>>((float4*)x);
}
"""


@pytest.mark.skipif(not compiler_version("nvcc"), reason="nvcc is not installed")
def test_the_builder_names_the_kernels_of_a_library_and_the_cache_remembers_them():
    files = CandidateFiles(files={"model_new.py": "", "kernels/run.cu": SOURCE})
    task = BuildTask(target="sm_90", candidate=files)
    report, library = build_library(task)
    assert report.ok, report.log
    names = {"plain(float*)", "hidden(float*, int)", "void tile<float, 4>(float*)", "a::(anonymous namespace)::inner(float4*)"}
    assert set(report.kernels) == names
    assert b"stitchweb_last_error" in library
    again, _ = build_library(task)
    assert again.cached
    assert again.kernels == report.kernels


def test_a_library_of_cpp_has_no_kernels():
    files = CandidateFiles(files={"model_new.py": "", "kernels/run.cpp": 'extern "C" int run() { return 1; }\n'})
    assert build_library(BuildTask(target="cpu", candidate=files))[0].kernels == ()
