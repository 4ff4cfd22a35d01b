"""Float32 products by split operands: the layouts are those of the PTX ISA, the numbers keep float32's accuracy, and every CUDA
template compiles for both generations of tensor cores without spilling registers. No GPU is needed for any of it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.agents.cuda_on_cpu import SHIMS, SPLIT, template_on_cpu
from tests.agents.nvcc import HEADERS, spill_free_kernels

HERE = Path(__file__).parent

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
extern "C" int all(const float* x, const float* w, float* out, float* space, long m, long n, long k, cudaStream_t stream) {
    const tf32::Operand a{x, m, k}, b{w, n, k}, a_turned{x, m, m}, b_turned{w, n, n};
    half_split::launch<false, false, 128, 1>(a_turned, b_turned, {1, 1}, k, space, Finish{out, n}, stream);
    half_split::launch<true, false, 128, 2>(a, b_turned, {2, 3}, k, space, Finish{out, n}, stream);
    half_split::launch<false, true, 64, 2>(a_turned, b, {2, 3}, k, space, Finish{out, n}, stream);
    return half_split::launch<true, true, 64, 1>(a, b, {1, 1}, k, space, Finish{out, n}, stream);
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


@pytest.mark.parametrize(("terms", "run"), [("tf32", 32), ("half", 64)])
@pytest.mark.parametrize("numbers", ["rand", "randn"])
def test_short_runs_on_the_tensor_core_are_no_less_accurate_than_float32(
    seen: dict[str, float], terms: str, numbers: str, run: int
) -> None:
    """With the runs that the templates use; whole sums on the tensor core would be several times worse."""
    assert f"#define {terms.upper()}_RUN {run}\n" in (HEADERS / f"gemm_{terms}.cuh").read_text()
    assert seen[f"ratio_{terms}_{numbers}_{run}"] < 1.0
    assert seen[f"ratio_{terms}_{numbers}_4096"] > 2.0


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    folder = tmp_path_factory.mktemp("played")
    for name in SPLIT:
        (folder / name).write_text(template_on_cpu(name, (HEADERS / name).read_text()))
    for name in ("split_packing.cpp", *SHIMS):
        (folder / name).write_text((HERE / name).read_text())
    command = ["g++", "-std=c++17", "-O1", "-march=native", "-w", "-o", "packing", "split_packing.cpp"]
    subprocess.run(command, cwd=folder, check=True)
    lines = subprocess.run([str(folder / "packing")], capture_output=True, text=True, check=True).stdout.splitlines()
    return [line.split() for line in lines]


def test_packing_keeps_every_number_and_says_when_a_row_is_too_wide(played: list[list[str]]) -> None:
    """A row with infinity, or with one number so large that the others lose their bits, raises the flag; others do not."""
    rows = [row[1:] for row in played if row[0] == "pack"]
    assert len(rows) == 15
    assert all(float(worst) <= 2.0 and wrong == "0" for _, _, _, worst, _, wrong in rows)
    assert [wide for *_, wide, _ in rows] == ["0"] * 5 + ["1"] * 10


def test_products_played_thread_by_thread_are_right_at_edges_layouts_and_infinity(played: list[list[str]]) -> None:
    rows = [row[1:] for row in played if row[0] == "product"]
    assert len(rows) == 18
    wide = [wide for columns, _, _, wide, *_ in rows if columns != "0"]
    assert wide == ["0", "0", "1", *["0"] * 5, "1", "0", "0", "1"], "only infinity and NaN need the other kernel"
    assert all(missing == "0" for *_, missing in rows)
    assert all(float(worst) < 8.0 for *_, worst, _ in rows), "float32 itself makes a few roundings"


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_the_templates_compile_and_spill_nothing(tmp_path: Path, target: str) -> None:
    assert spill_free_kernels(tmp_path, PROGRAM, target) >= 12
