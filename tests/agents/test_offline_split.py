"""Float32 products by split operands: the layouts are those of the PTX ISA, the numbers keep float32's accuracy, and every CUDA
template compiles for both generations of tensor cores without spilling registers. No GPU is needed for any of it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import agents.engineers.offline as offline

HERE = Path(__file__).parent
HEADERS = Path(offline.__file__).parent / "emit" / "headers"

PROGRAM = """
#include "gemm_half.cuh"
namespace {
struct Finish {
    float* out;
    long columns;
    template <int W> __device__ void operator()(long row, long column, const float (&sums)[W]) const {
        for (int i = 0; i < W; ++i) out[row * columns + column + i] = sums[i];
    }
};
}  // namespace
extern "C" int both(const float* x, const float* w, float* out, float* space, long m, long n, long k, cudaStream_t stream) {
    const tf32::Operand a{x, m, k}, b{w, n, k}, a_turned{x, m, m}, b_turned{w, n, n};
    tf32::launch<false, false>(a_turned, b_turned, k, nullptr, Finish{out, n}, stream);
    half_split::pack<false>(a_turned, k, half_split::in_workspace(space, m, k), nullptr, stream);
    return half_split::launch<true, true>(a, b, k, space, Finish{out, n}, stream);
}
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, float]:
    program = tmp_path_factory.mktemp("split") / "split_layouts"
    command = ["g++", "-O2", "-std=c++17", "-march=native", f"-I{HEADERS}", "-o", str(program), str(HERE / "split_layouts.cpp")]
    subprocess.run(command, check=True)
    lines = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout.splitlines()
    return {name: float(value) for name, value in (line.split() for line in lines)}


@pytest.mark.parametrize("a", [0, 1])
@pytest.mark.parametrize("b", [0, 1])
def test_a_tile_multiplied_lane_by_lane_is_the_product_whichever_way_the_operands_lie(
    seen: dict[str, float], a: int, b: int
) -> None:
    assert seen[f"products_{a}{b}"] == 0


def test_no_access_to_shared_memory_hits_a_bank_twice(seen: dict[str, float]) -> None:
    assert seen["bank_conflicts"] == 0


def test_packed_planes_are_what_the_descriptors_address(seen: dict[str, float]) -> None:
    assert seen["planes"] == 0


def test_every_tile_of_the_result_is_made_once(seen: dict[str, float]) -> None:
    assert seen["tiles"] == 0


def test_every_row_is_scaled_into_fp16s_range_by_what_can_be_undone(seen: dict[str, float]) -> None:
    assert seen["scales"] == 0


def test_two_terms_keep_float32s_mantissa_within_two_roundings(seen: dict[str, float]) -> None:
    assert seen["split_tf32"] <= 2.0
    assert seen["split_half"] <= 2.0


@pytest.mark.parametrize(("terms", "run"), [("tf32", 64), ("half", 128)])
@pytest.mark.parametrize("numbers", ["rand", "randn"])
def test_short_runs_on_the_tensor_core_are_no_less_accurate_than_float32(
    seen: dict[str, float], terms: str, numbers: str, run: int
) -> None:
    """With the runs that the templates use; whole sums on the tensor core would be several times worse."""
    assert f"#define {terms.upper()}_RUN {run}\n" in (HEADERS / f"gemm_{terms}.cuh").read_text()
    assert seen[f"ratio_{terms}_{numbers}_{run}"] < 1.0
    assert seen[f"ratio_{terms}_{numbers}_4096"] > 2.0


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_the_templates_compile_and_spill_nothing(tmp_path: Path, target: str) -> None:
    (tmp_path / "both.cu").write_text(PROGRAM)
    command = [
        "nvcc",
        "-std=c++17",
        "-O3",
        f"-arch={target}",
        f"-I{HEADERS}",
        "-Xptxas",
        "-v",
        "-cubin",
        "-o",
        "/dev/null",
        "both.cu",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    spills = re.findall(r"(\d+) bytes spill stores", done.stderr)
    assert len(spills) >= 6
    assert set(spills) == {"0"}
    assert "serialized" not in done.stderr, "wgmma instructions wait for each other"
