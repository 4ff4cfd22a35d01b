"""Programs around convolutions in each way that a GPU offers: what is fused, and that the results are eager's to the stride."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agents.engineers.offline.graph import contiguous
from agents.engineers.offline.layouts import channels_last, with_biases_apart, with_channels_last
from gpu_runner.contracts import PROTOCOLS, Graph, GraphInput, GraphNode, GraphOutput, TensorSpec

HERE = Path(__file__).parent
CAPTURED, LAST = "as captured", "channels last"
Rows = dict[tuple[str, str], dict[str, Any]]
NAMES = (
    "pointwise after a convolution", "residual of another layout", "two results", "transposed", "one dimension",
    "padded at one end", "three dimensions", "pooled and flattened", "channels cut and joined", "norm of channels",
    "squeezed and excited", "smallest of the channels", "batch norm in training", "batch norm of many channels",
    "batch norm, then a maximum", "batch norm, then windows and all of it", "group norm and residual", "instance norm",
    "mean of a normalised volume", "softmax over channels", "norm of a sequence", "softmax of few long rows", "depthwise",
    "depthwise in one dimension", "gates of channels", "parts of channels, alone",
)  # fmt: skip


@pytest.fixture(scope="module")
def rows() -> Rows:
    script = [sys.executable, str(HERE / "layout_programs.py")]
    done = subprocess.run(script, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    return {(row["name"], row["way"]): row for row in answers}


@pytest.mark.parametrize("name", NAMES)
def test_results_are_eagers_in_value_and_stride_in_every_way(rows: Rows, name: str) -> None:
    found = [rows[name, way] for way in (CAPTURED, LAST) if (name, way) in rows]
    assert any(row["way"] == LAST for row in found)
    for row in found:
        assert row["fell_back"] == 0
        assert row["right"]
        assert row["layout"]
        assert row["follows"], "what was replaced counts at the next call"
        # What the Verifier calls full precision. Eager's own convolutions of another layout sum in another order.
        assert row["ratio"] <= PROTOCOLS["strict"].ratio_full, "times eager's own error against float64"


def test_bias_activation_and_the_way_back_to_eagers_layout_are_one_kernel(rows: Rows) -> None:
    assert ["add", "sub", "mish", "mul", "relaid"] in rows["pointwise after a convolution", LAST]["ops"]
    assert ["add", "add", "relu", "mul", "relaid"] in rows["residual of another layout", LAST]["ops"]


def test_a_norm_of_images_is_sums_their_joining_and_pointwise_work_with_all_that_follows(rows: Rows) -> None:
    assert ["_native_batch_norm_legit_functional", "silu", "add", "relaid"] in rows["batch norm in training", LAST]["ops"]
    row = rows["batch norm in training", LAST]
    source = next(text for path, text in row["files"].items() if "silu" in path)
    assert [word in source for word in ("_parts<<<", "_join<<<", "_points_kernel<")] == [True] * 3
    assert source.count("for (int at = begin") == 1, "mean and variance from one reading"


def test_what_a_norm_makes_joins_the_sums_windows_and_maxima_after_it(rows: Rows) -> None:
    for way in (CAPTURED, LAST):
        ops = rows["batch norm, then a maximum", way]["ops"]
        assert ["normalised", "relu", "amax"] in ops
        assert ["add", "_native_batch_norm_legit_functional"] in ops, "statistics alone, after the bias"
        ops = rows["batch norm, then windows and all of it", way]["ops"]
        for kinds in (["normalised", "relu", "max_pool2d"], ["normalised", "silu", "avg_pool2d"], ["normalised", "mean"]):
            assert any(found[: len(kinds)] == kinds for found in ops)


def test_zeros_around_an_operand_are_the_convolutions_own_padding(rows: Rows) -> None:
    for way in (CAPTURED, LAST):
        text = rows["padded at one end", way]["files"]["model_new.py"]
        forward = text[text.index("class ModelNew") :]
        assert forward.count("aten.pad.") == 1, "of what is padded with another number than 0"


def test_depthwise_convolutions_are_kernels_in_every_layout_with_what_follows_them(rows: Rows) -> None:
    for way in (CAPTURED, LAST):
        assert rows["depthwise", way]["kinds"].count("depthwise") == 3
        assert ["conv2d", "add", "silu"] in rows["depthwise", way]["ops"]
    assert "depthwise" in rows["depthwise in one dimension", CAPTURED]["kinds"]


def test_a_bias_joins_what_follows_each_part_of_its_channels(rows: Rows) -> None:
    ops = rows["gates of channels", CAPTURED]["ops"]
    assert ["add", "tanh", "mul"] in ops
    assert any(kinds.count("add") > 2 and "sigmoid" in kinds for kinds in ops), "of the gate and of what it gates"


def test_running_statistics_change_where_they_lie_and_counters_all_at_once(rows: Rows) -> None:
    text = rows["batch norm in training", LAST]["files"]["model_new.py"]
    forward = text[text.index("class ModelNew") :]
    assert ".copy_(" not in forward
    assert "torch._foreach_add_([n_num_batches_tracked, m_num_batches_tracked], 1)" in forward


def test_what_follows_in_the_same_layout_needs_no_copy(rows: Rows) -> None:
    text = rows["norm of channels", LAST]["files"]["model_new.py"]
    forward = text[text.index("class ModelNew") :]
    assert forward.count("relaid in one pass") == 1, "the input, and nothing else"


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(
    "name", ["residual of another layout", "group norm and residual", "batch norm, then windows and all of it", "depthwise"]
)
def test_turning_staged_and_depthwise_kernels_compile(rows: Rows, tmp_path: Path, name: str, architecture: str) -> None:
    for path, text in rows[name, LAST]["files"].items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    sources = [str(path) for path in tmp_path.glob("kernels/*.cu")]
    assert len(sources) >= 2
    command = [
        "nvcc",
        "-std=c++17",
        "--expt-relaxed-constexpr",
        f"-arch={architecture}",
        "-Werror",
        "all-warnings",
        "-Xcompiler",
        "-fPIC",
    ]
    done = subprocess.run(
        [*command, "-shared", "-o", "libkernels.so", *sources], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr


def spec(*shape: int, stride: tuple[int, ...] = ()) -> TensorSpec:
    return TensorSpec(shape=shape, dtype="float32", stride=stride or contiguous(shape))


def convolution(*after: GraphNode, result: str) -> Graph:
    conv = GraphNode(
        name="conv", target="aten.conv2d.default", args=({"ref": "x"}, {"ref": "w"}, {"ref": "b"}), out=(spec(2, 8, 6, 6),)
    )
    inputs = (
        GraphInput(name="x", kind="input", target="0", spec=spec(2, 4, 8, 8)),
        GraphInput(name="w", kind="parameter", target="w", spec=spec(8, 4, 3, 3)),
        GraphInput(name="b", kind="parameter", target="b", spec=spec(8)),
    )
    return Graph(inputs=inputs, nodes=(conv, *after), outputs=(GraphOutput(kind="result", ref=result),))


def test_a_bias_becomes_an_addition_under_the_convolutions_name() -> None:
    sums, column, add = with_biases_apart(convolution(result="conv")).nodes
    assert sums.args[2] is None
    assert column.out[0] == spec(8, 1, 1)
    assert (add.name, add.target) == ("conv", "aten.add.Tensor")


def test_results_return_to_the_strides_that_they_had() -> None:
    graph = with_channels_last(convolution(result="conv"))
    assert graph is not None
    last = next(n for n in graph.nodes if n.name == graph.outputs[0].ref)
    assert last.target == "relaid"
    assert last.out[0] == spec(2, 8, 6, 6)
    conv = next(n for n in graph.nodes if n.name == "conv")
    assert conv.out[0] is not None
    assert conv.out[0].stride == channels_last((2, 8, 6, 6)) == (288, 1, 48, 8)


def test_an_operation_of_unknown_layout_gets_its_operand_as_it_was() -> None:
    sort = GraphNode(name="s", target="aten.cummax.default", args=({"ref": "conv"}, 1), out=(spec(2, 8, 6, 6),))
    graph = with_channels_last(convolution(sort, result="s"))
    assert graph is not None
    used = next(n for n in graph.nodes if n.name == "s").args[0]["ref"]
    operand = next(n for n in graph.nodes if n.name == used)
    assert operand.target == "relaid"
    assert operand.out[0] == spec(2, 8, 6, 6)


def test_a_view_that_the_layout_allows_stays_a_view() -> None:
    rows = GraphNode(name="p", target="aten.permute.default", args=({"ref": "conv"}, [0, 2, 3, 1]),
                     out=(spec(2, 6, 6, 8, stride=(288, 6, 1, 36)),))  # fmt: skip
    flat = GraphNode(name="f", target="aten.reshape.default", args=({"ref": "p"}, [72, 8]), out=(spec(72, 8),))
    graph = with_channels_last(convolution(rows, flat, result="f"))
    assert graph is not None
    assert [n.target for n in graph.nodes][-2:] == ["aten.permute.default", "aten.reshape.default"]
    assert graph.outputs[0].ref == "f"


def test_a_program_without_convolutions_has_one_layout() -> None:
    node = GraphNode(name="y", target="aten.relu.default", args=({"ref": "x"},), out=(spec(4),))
    x = GraphInput(name="x", kind="input", target="0", spec=spec(4))
    assert with_channels_last(Graph(inputs=(x,), nodes=(node,), outputs=(GraphOutput(kind="result", ref="y"),))) is None
