"""Programs that the offline engineer rewrote do the same as their references, and stay honest about what they do not cover."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.agents.offline_programs import PROGRAMS, TRAIN

NAMES = [*PROGRAMS, *TRAIN]


@pytest.fixture(scope="module")
def answers() -> dict[str, dict[str, Any]]:
    """One child process for all of them, because it imports torch and the tests must not."""
    script = Path(__file__).with_name("offline_programs.py")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=600)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(rows) == len(NAMES), done.stderr[-2000:]
    return {row["name"]: row for row in rows}


@pytest.mark.parametrize("name", NAMES)
def test_a_rewritten_program_runs_its_kernels_and_computes_in_full_precision(answers, name):
    row = answers[name]
    assert "error_text" not in row, row
    assert row["kinds"], "no kernel was written"
    assert row["fell_back"] == 0
    assert all(row["layout"]), "a result has another shape or other strides than the reference's"
    assert max(row["error"]) <= 2.0, "the error against float64 is more than twice eager's own"
    assert row["state"] <= 1e-5


@pytest.mark.parametrize("name", NAMES)
def test_weights_that_change_after_construction_count_at_once(answers, name):
    assert answers[name]["new_weights"]


@pytest.mark.parametrize("name", NAMES)
def test_inputs_laid_out_otherwise_go_the_references_way(answers, name):
    assert answers[name]["odd_layout"]
    assert answers[name]["odd_fell_back"]


@pytest.mark.parametrize("name", NAMES)
def test_nan_and_infinity_appear_where_the_reference_has_them(answers, name):
    assert answers[name]["not_finite"]


def test_batch_norm_in_training_moves_its_running_statistics(answers):
    row = answers["batch norm in training"]
    assert row["state_moved"]
    assert "reduce" in row["kinds"]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("linear, gelu and residual", "gemm"),
        ("linear alone, with and without bias", "product"),
        ("pointwise convolution, norm and silu", "conv"),
        ("depthwise convolution with stride", "depthwise"),
        ("winograd convolution, norm and residual", "winograd"),
        ("winograd convolution of short rows", "winograd"),
        ("winograd convolution padded in height alone", "winograd"),
        ("winograd convolution of numbers that would overflow", "winograd"),
        ("lstm with its states", "recurrent"),
        ("gru, last step", "recurrent"),
        ("layer norm and gelu", "reduce"),
        ("pointwise with broadcasting", "fuse"),
    ],
)
def test_each_family_gets_the_kernel_made_for_it(answers, name, kind):
    assert kind in answers[name]["kinds"]
