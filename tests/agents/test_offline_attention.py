"""Attention by split products: played thread by thread on a CPU against float64, and compiled without spilling registers."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.agents.cuda_on_cpu import SHIMS, SPLIT, template_on_cpu
from tests.agents.nvcc import HEADERS, spill_free_kernels

HERE = Path(__file__).parent
PROGRAM = """
#include "attention_half.cuh"
namespace {
struct Scores {
    static constexpr bool EMPTY_IS_ZERO = true;
    const float* mask;
    long lead;
    struct Row {
        const float* line;
        __device__ float operator()(int key, float sum) const { return sum * 0.125f + line[key]; }
    };
    __device__ Row row(int, int query) const { return {mask + query * lead}; }
};
}  // namespace
extern "C" int all(const float* q, const float* k, const float* v, const float* mask, float* out, float* space, long m, long n,
                   cudaStream_t stream) {
    const tf32::Operand queries{q, m, 64, m * 64, 64}, keys{k, n, 64, n * 64, 64}, values{v, 64, 64, n * 64, 64};
    return half_split::attention::launch<true, true, false>(queries, keys, values, {2, 3}, 64, false, space, Scores{mask, n},
                                                            half_split::Result{out, m * 64, 64, 64}, stream);
}
"""


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    folder = tmp_path_factory.mktemp("played")
    for name in SPLIT:
        (folder / name).write_text(template_on_cpu(name, (HEADERS / name).read_text()))
    for name in ("split_attention.cpp", *SHIMS):
        (folder / name).write_text((HERE / name).read_text())
    command = ["g++", "-std=c++17", "-O1", "-march=native", "-w", "-o", "attention", "split_attention.cpp"]
    subprocess.run(command, cwd=folder, check=True)
    lines = subprocess.run([str(folder / "attention")], capture_output=True, text=True, check=True).stdout.splitlines()
    return [line.split()[1:] for line in lines]


def test_attention_played_thread_by_thread_is_right_with_masks_edges_and_what_is_not_finite(played: list[list[str]]) -> None:
    assert [wide for wide, _, _ in played] == ["0"] * 5 + ["1"] * 2, "only infinity and NaN need the plain kernel"
    assert all(missing == "0" for _, _, missing in played)
    assert all(float(worst) < 8.0 for _, worst, _ in played), "float32 itself makes a few roundings"


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_the_template_compiles_and_spills_nothing(tmp_path: Path, target: str) -> None:
    assert spill_free_kernels(tmp_path, PROGRAM, target) >= 7
