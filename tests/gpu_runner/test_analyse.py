"""What the analysis says of programs, and how it refuses those on which no run is possible."""

from __future__ import annotations

import pytest

from gpu_runner.contracts import Label, Limits, Mode
from tests.gpu_runner.programs import REFERENCE

MODEL = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return {body}

def get_inputs():
    return [torch.randn(8, 16)]
"""


def test_a_program_is_described_with_its_graph(analyse):
    report = analyse(REFERENCE)
    assert report.refusal is None
    assert report.entry == "Model"
    assert report.init_inputs == [256]
    assert [spec.shape for spec in report.inputs] == [(48, 256)]
    assert report.outputs[0].dtype == "float32"
    assert report.parameters == 512
    assert report.parameter_bytes == 2048
    assert report.bytes == 2 * 48 * 256 * 4 + 2048
    assert report.eager_ms > 0
    assert report.deterministic
    assert not report.inputs_constant
    assert not report.mutates_inputs
    assert report.nulls == ()
    assert report.other_batch is True
    assert {op.op for op in report.ops} >= {"aten::native_layer_norm", "aten::gelu"}
    assert any(op.time_ns > 0 for op in report.ops)
    assert report.graph is not None
    assert report.device.target == "cpu"


def test_matrix_products_are_counted(analyse):
    text = MODEL.format(body="x @ x.t()")
    assert analyse(text).flops == 2 * 8 * 8 * 16


def test_a_module_that_is_not_called_model_is_found_when_it_is_the_only_one(analyse):
    assert analyse(REFERENCE.replace("class Model(", "class Block(")).entry == "Block"


REFUSALS = {
    "syntax_error": "import torch\nclass Model(torch.nn.Module:\n    pass\n",
    "no_module": "import torch\ndef get_inputs():\n    return []\n",
    "several_modules": "import torch\nclass A(torch.nn.Module): pass\nclass B(torch.nn.Module): pass\n",
    "no_get_inputs": "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x\n",
    "missing_package": "import torch\nimport a_package_nobody_has\n",
    "crash_import": "import torch\nraise RuntimeError('not today')\n",
    "crash_init": REFERENCE.replace("super().__init__()", "super().__init__()\n        raise ValueError('no width')"),
    "crash_inputs": REFERENCE.replace("return [torch.randn(48, 256)]", "return [torch.randn(48, -1)]"),
    "crash_forward": REFERENCE.replace("torch.randn(48, 256)", "torch.randn(48, 255)"),
    "init_not_json": REFERENCE.replace("return [256]", "return [torch.ones(2)]"),
    "inputs_not_list": REFERENCE.replace("return [torch.randn(48, 256)]", "return 'x'"),
    "returns_nothing": MODEL.format(body="None"),
    "unsupported_outputs": MODEL.format(body="x.to_sparse()"),
    "stochastic": MODEL.format(body="x + torch.rand_like(x)"),
    "crashed": MODEL.format(body="__import__('os')._exit(3)"),
}


@pytest.mark.parametrize("code", REFUSALS)
def test_a_program_that_cannot_be_used_is_refused_with_a_sentence(code, analyse):
    refusal = analyse(REFUSALS[code]).refusal
    assert refusal is not None
    assert refusal.code == code, refusal
    assert len(refusal.sentence) > 20


def test_a_refusal_names_the_line_and_the_way_out(analyse):
    refusal = analyse("import torch\nx = 1\nimport a_package_nobody_has\n").refusal
    assert refusal.line == 3
    assert "a_package_nobody_has" in refusal.sentence
    assert "RUNNER_PACKAGES" in refusal.way_out
    crash = analyse(REFUSALS["crash_forward"]).refusal
    assert crash.line == 12
    assert "self.norm(x)" in crash.log
    assert "site-packages" not in crash.log


def test_a_program_that_hangs_is_ended(analyse):
    refusal = analyse(MODEL.format(body="[0 for _ in iter(int, 1)]"), limits=Limits(wall_s=12)).refusal
    assert refusal.code == "timed_out"


def test_a_program_that_takes_too_much_memory_is_ended(analyse):
    refusal = analyse(MODEL.format(body="torch.ones(1 << 40)"), limits=Limits(memory_mib=2048)).refusal
    assert refusal.code == "out_of_memory"


def test_live_dropout_is_stochastic_and_the_way_out_is_the_mode(analyse):
    text = MODEL.format(body="nn.functional.dropout(x, 0.5, self.training)")
    assert analyse(text).refusal is None
    refusal = analyse(text, mode=Mode.TRAIN).refusal
    assert refusal.code == "stochastic"
    assert "eval" in refusal.way_out


@pytest.mark.parametrize(
    ("body", "null"),
    [
        ("x * 0.0", "zeros"),
        ("torch.softmax(x.sum(-1, keepdim=True), -1)", "constant"),
        ("x * 1.0", "first-input"),
    ],
)
def test_a_program_that_a_trivial_one_passes_is_degenerate(body, null, analyse):
    report = analyse(MODEL.format(body=body))
    assert report.refusal is None
    assert null in report.nulls
    assert Label.DEGENERATE in report.labels
    assert any("degenerate" in warning for warning in report.warnings)


def test_relu_of_positive_inputs_is_not_degenerate_because_other_inputs_tell(analyse):
    report = analyse(MODEL.format(body="torch.relu(x)").replace("torch.randn", "torch.rand"))
    assert report.nulls == ()


def test_a_network_that_damps_its_input_is_still_judged_by_what_the_input_changes(analyse):
    text = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(*[m for _ in range(8) for m in (torch.nn.Linear(64, 64), torch.nn.ReLU())])
    def forward(self, x):
        return self.layers(x)
def get_inputs():
    return [torch.rand(16, 64)]
"""
    assert "other-input" not in analyse(text).nulls


def test_inputs_that_never_change_and_inputs_that_are_changed_are_said(analyse):
    constant = analyse(MODEL.format(body="x + 1").replace("torch.randn(8, 16)", "torch.arange(8.0)"))
    assert constant.inputs_constant
    assert Label.INPUTS_CONSTANT in constant.labels
    assert analyse(MODEL.format(body="x.mul_(2) + 1")).mutates_inputs


def test_control_flow_that_depends_on_data_leaves_the_graph_out_with_a_reason(analyse):
    report = analyse(MODEL.format(body="x + 1 if x.sum() > 0 else x - 1"))
    assert report.refusal is None
    assert report.graph is None
    assert report.graph_reason
