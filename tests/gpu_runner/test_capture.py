"""Capture turns modules into graphs as data. It runs in a child process, as in the sandbox, because it imports torch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpu_runner.contracts import Graph

ROOT = Path(__file__).resolve().parents[2]

CHILD = """
import json
import torch, torch.nn as nn, torch.nn.functional as F
from gpu_runner.child.capture import capture

class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.bn = nn.BatchNorm2d(8)
        self.register_buffer("count", torch.zeros(1))
    def forward(self, x, flag=2):
        self.count += 1
        y = F.relu(self.bn(self.conv(x)), inplace=True)
        return {"y": y * flag, "pair": (y.mean(), None)}

class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(8, 8)
        self.lstm = nn.LSTM(8, 8, batch_first=True)
    def forward(self, x):
        y = F.scaled_dot_product_attention(x, x, F.gelu(self.lin(x)), is_causal=True)
        y = y.masked_fill(y > 1, float("-inf")).softmax(-1)
        return self.lstm(y)[0]

class Fork(nn.Module):
    def forward(self, x):
        return x * 2 if x.sum() > 0 else x

class InPlace(nn.Module):
    def forward(self, x):
        x.add_(1)
        return x * torch.tensor([1.0, 2.0])

class Broken(nn.Module):
    def forward(self, x):
        raise RuntimeError("no such luck")

cases = {
    "eval": (Norm(), (torch.randn(2, 3, 9, 9),), "eval"),
    "train": (Norm(), (torch.randn(2, 3, 9, 9),), "train"),
    "layers": (Layers(), (torch.randn(2, 5, 8),), "eval"),
    "fork": (Fork(), (torch.randn(3),), "eval"),
    "in_place": (InPlace(), (torch.randn(4, 2),), "eval"),
    "broken": (Broken(), (torch.randn(3),), "eval"),
    "channels_last": (nn.Sequential(nn.ReLU()), (torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),), "eval"),
}
weights = {k: [v.clone() for v in m.state_dict().values()] for k, (m, _, _) in cases.items()}
answers = {k: capture(*case) for k, case in cases.items()}
same = all(torch.equal(a, b) for k, (m, _, _) in cases.items() for a, b in zip(weights[k], m.state_dict().values()))
print(json.dumps({"answers": answers, "untouched": same}))
"""


@pytest.fixture(scope="module")
def captured() -> dict[str, Any]:
    done = subprocess.run([sys.executable, "-c", CHILD], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def graph_of(captured: dict[str, Any], name: str) -> Graph:
    data, reason = captured["answers"][name]
    assert data is not None, reason
    return Graph.model_validate(data)


def test_capturing_leaves_weights_and_buffers_as_they_were(captured):
    assert captured["untouched"]


def test_operations_stay_the_ones_that_people_think_in(captured):
    targets = {n.target for n in graph_of(captured, "layers").nodes}
    assert {"aten.linear.default", "aten.gelu.default", "aten.scaled_dot_product_attention.default"} <= targets
    assert {"aten.softmax.int", "aten.lstm.input"} <= targets


def test_parameters_and_buffers_carry_their_dotted_names_and_the_module_its_path(captured):
    graph = graph_of(captured, "eval")
    named = {i.target: i.kind for i in graph.inputs}
    assert named["conv.weight"] == "parameter"
    assert named["bn.running_mean"] == "buffer"
    assert named["0"] == "input"
    assert next(n for n in graph.nodes if n.target == "aten.conv2d.default").module == "conv"


def test_every_value_has_shape_strides_and_dtype(captured):
    conv = next(n for n in graph_of(captured, "eval").nodes if n.target == "aten.conv2d.default")
    assert conv.out[0] is not None
    assert conv.out[0].shape == (2, 8, 7, 7)
    assert conv.out[0].stride == (392, 49, 7, 1)
    assert conv.out[0].dtype == "float32"


def test_a_memory_format_shows_in_the_strides(captured):
    graph = graph_of(captured, "channels_last")
    assert graph.inputs[0].spec is not None
    assert graph.inputs[0].spec.stride == (60, 1, 15, 3)


def test_results_keep_their_tree_and_literals(captured):
    graph = graph_of(captured, "eval")
    assert graph.tree == {"y": "*", "pair": ["tuple", "*", "*"]}
    results = [o for o in graph.outputs if o.kind == "result"]
    assert results[2].ref is None
    assert results[2].value is None


def test_in_place_changes_of_buffers_become_named_mutations(captured):
    changed = {o.target for o in graph_of(captured, "train").outputs if o.kind == "buffer_mutation"}
    assert changed == {"count", "bn.running_mean", "bn.running_var", "bn.num_batches_tracked"}
    assert {o.target for o in graph_of(captured, "eval").outputs if o.kind == "buffer_mutation"} == {"count"}


def test_a_changed_input_is_named_by_its_position_and_small_constants_travel_along(captured):
    graph = graph_of(captured, "in_place")
    assert [o.target for o in graph.outputs if o.kind == "input_mutation"] == ["0"]
    constant = next(i for i in graph.inputs if i.kind == "constant")
    assert constant.value == [1.0, 2.0]


def test_infinity_travels_as_a_tagged_number(captured):
    fill = next(n for n in graph_of(captured, "layers").nodes if n.target.startswith("aten.masked_fill"))
    assert {"float": "-inf"} in fill.args


@pytest.mark.parametrize(("name", "says"), [("fork", "depends on the values"), ("broken", "no such luck")])
def test_what_cannot_be_captured_comes_back_with_the_reason(captured, name, says):
    graph, reason = captured["answers"][name]
    assert graph is None
    assert says in reason
