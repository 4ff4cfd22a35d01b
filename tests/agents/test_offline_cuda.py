"""Candidates for a GPU, as far as they can be judged without one: what is chosen, that it compiles, and that a replayed program
means what the reference means."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
PLAYED = (
    "pointwise with broadcasting", "layer norm and gelu", "group norm, scale and silu", "softmax over channels",
    "log softmax and its sum", "statistics of rows", "batch norm in training", "cross entropy with ignored rows",
    "few long rows in training", "whole images", "rotated by halves", "joined channels, normalised", "joined rows, summed",
    "joined and turned around", "losses of pairs", "rows of registers", "columns of registers",
    "windows side by side", "neighbours in rows and in losses", "begins anywhere", "picked rows",
    "running sums and products", "running sums of all lengths",
)  # fmt: skip
HEADS = "{q, 40, 180, 7200, 20}, {k, 40, 180, 7200, 20}, {v, 20, 180, 7200, 20}, {2, 3}, 20,"
SPLIT = {  # how the operands of each are read: along their sums or not, whether the batch shares them
    "scores of heads, scaled and masked": "<true, true, 64, 1>({x, 40, 120, 4800, 20}, {w, 40, 120, 4800, 20}, {2, 3}, 20,",
    "values of heads, then transposed": "<true, false, 64, 1>({x, 33, 41, 0, 1353}, {w, 20, 20, 0, 820}, {1, 6}, 41,",
    "a right operand for all, and one for each head": "<true, false, 64, 1>({x, 3, 750, 2250, 30}, {w, 50, 50}, {2, 25}, 30,",
    "added to a batch, with factors": "<true, true, 64, 1>({x, 30, 70, 0, 2100}, {w, 40, 70, 0, 2800}, {1, 4}, 70,",
    "one left operand for a batch": "<true, false, 64, 1>({x, 50, 30}, {w, 36, 36, 0, 1080}, {1, 3}, 30,",
    "linear, transposed after": "<true, true, 64, 1>({x, 210, 40}, {w, 64, 40}, {1, 1}, 40,",
    "attention as PyTorch has it": f"<true, true, false>({HEADS}",
    "attention with a mask and a scale": "({q, 33, 24, 2376, 792}, {k, 70, 24, 5040, 1680}, {v, 16, 16, 3360, 1120}, {2, 3},",
    "attention written out": f"<true, true, false>({HEADS}",
    "attention of one batch": "<true, true, false>({q, 33, 24, 0, 792}, {k, 70, 24, 0, 1680}, {v, 17, 17, 0, 1190}, {1, 3},",
    "two layers, one kernel": "<true, true, 64, 1>({x, 20, 40}, {w, 40, 40}, {1, 1}, 40,",
    "few tiles and long sums": "<true, true, 64, 5>({x, 20, 600}, {w, 600, 600}, {1, 1}, 600,",
}
Written = dict[tuple[str, str], dict[str, Any]]


def child(script: str) -> list[dict[str, Any]]:
    done = subprocess.run([sys.executable, str(HERE / script)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def written() -> Written:
    return {(row["name"], row["target"]): row for row in child("cuda_programs.py")}


@pytest.fixture(scope="module")
def replayed() -> dict[str, Any]:
    return child("replay_world.py")[0]


def test_a_large_product_is_split_with_the_terms_that_the_architecture_multiplies_fastest(written: Written) -> None:
    for target, header in (("sm_90", "gemm_half.cuh"), ("sm_80", "gemm_tf32.cuh")):
        row = written["linear with epilogue", target]
        assert row["kinds"]["split"] > 1.3
        source = row["files"]["kernels/k1_linear_gelu_mul.cu"]
        assert f'#include "{header}"' in source
        assert "fast_gelu(" in source
        assert f"kernels/{header}" in row["files"]


@pytest.mark.parametrize("name", ["skinny", "gapped operand", "many small"])
def test_a_product_that_splitting_cannot_help_stays_with_the_library(written: Written, name: str) -> None:
    assert "split" not in written[name, "sm_90"]["kinds"]


def test_layers_that_differ_in_nothing_but_names_share_a_kernel(written: Written) -> None:
    files = written["two layers, one kernel", "played"]["files"]
    assert [path for path in files if path.endswith(".cpp")] == ["kernels/k1_linear_relu.cpp"]


def test_attention_is_one_kernel_on_the_architecture_that_has_it(written: Written) -> None:
    kinds = written["attention of many heads", "sm_90"]["kinds"]
    assert kinds["attention"] > 2
    assert "split" not in kinds
    assert "attention" not in written["attention of many heads", "sm_80"]["kinds"]


def test_operands_are_read_as_they_lie(written: Written) -> None:
    source = written["both operands turned", "sm_90"]["files"]["kernels/k1_matmul_relu.cu"]
    assert (
        "half_split::launch<false, true, 128, 1>(tf32::Operand{x, 1301, 1301}, tf32::Operand{w, 1201, 900}, {1, 1}, 900,"
        in source
    )


def test_one_graph_pays_where_the_host_is_slower_than_the_device(written: Written) -> None:
    assert written["many small", "sm_90"]["kinds"]["replay"] > 1.5
    assert written["linear with epilogue", "sm_90"]["kinds"].get("replay", 1.0) < 1.1
    assert "replay" not in written["changes its input", "sm_90"]["kinds"]


def test_running_sums_depthwise_convolutions_and_windows_are_planned_where_they_pay(written: Written) -> None:
    for target in ("sm_80", "sm_90"):
        kinds = written["scans, windows and rows", target]["kinds"]
        assert {"running", "depthwise", "reduce"} <= set(kinds)
        sources = "".join(written["scans, windows and rows", target]["files"].values())
        assert "scan::rows<scan::Sum, 256" not in sources, "rows of 256 numbers need no block of 256 threads"
        assert "scan::columns<scan::Product, " in sources


@pytest.mark.parametrize("name", [*PLAYED, *SPLIT])
def test_kernels_played_thread_by_thread_compute_what_the_reference_does(written: Written, name: str) -> None:
    row = written[name, "played"]
    assert row["files"] != ["candidate.toml", "model_new.py"]
    assert row["fell_back"] == 0
    assert all(row["layout"])
    assert max(row["error"]) < 1.5, "times eager's own error against float64"
    assert row["state"] < 1e-5
    assert row["not_finite"]
    assert row["new_weights"]


@pytest.mark.parametrize("name", SPLIT)
def test_operands_of_a_batch_are_read_as_they_lie(written: Written, name: str) -> None:
    row = written[name, "played"]
    assert ("attention" if "attention" in name else "split") in row["kinds"]
    assert SPLIT[name] in row["launches"][0].replace("tf32::Operand", "")


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
@pytest.mark.parametrize(
    "name", ["both operands turned", "norm and loss", "attention of many heads", "scans, windows and rows"]
)
@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_written_kernels_compile(written: Written, tmp_path: Path, name: str, target: str) -> None:
    row = written[name, target]
    files = {path: text for path, text in row["files"].items() if path.startswith("kernels/")}
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    sources = [path for path in files if path.endswith(".cu")]
    flags = ["-O3", "-std=c++17", "--expt-relaxed-constexpr", "-Xcompiler", "-fPIC"]
    flags.append(f"-arch={target}{'a' if target == 'sm_90' else ''}")
    command = ["nvcc", *flags, "-Werror", "all-warnings", "-shared", "-o", "libkernels.so", *sources]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["plain", "batch norm"])
def test_a_replayed_program_computes_what_the_reference_does_and_changes_its_state_once_a_call(
    replayed: dict[str, Any], name: str
) -> None:
    assert replayed[name] == {"right": True, "graphs": 1, "replays": 4}


@pytest.mark.parametrize("name", ["returns its input", "changes its input", "counts", "waits"])
def test_what_no_graph_can_mean_runs_as_it_is(replayed: dict[str, Any], name: str) -> None:
    assert replayed[name]["right"]
    assert replayed[name]["replays"] == 0


CASES = ["keeps results", "weights changed in place", "weights replaced", "other shapes", "by name", "copied", "turned inputs"]


@pytest.mark.parametrize("case", [*CASES, "gradients"])
def test_a_replay_reads_what_is_there_now_and_hands_out_results_of_their_own(replayed: dict[str, Any], case: str) -> None:
    assert replayed[case]
