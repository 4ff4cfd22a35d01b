"""The suite: every program loads, runs on tensors without data, and is as large as it says by the roofline estimate."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SUITE = ROOT / "bench" / "suite"
FILES = sorted(path.relative_to(SUITE).as_posix() for path in SUITE.rglob("*.py"))
FAMILIES = {
    "matmul", "convolution", "pooling", "normalisation", "scan", "loss", "reduction", "pointwise", "indexing", "gemm-chain",
    "conv-chain", "norm-chain", "pointwise-chain", "attention", "mlp", "cnn", "segmentation", "aggregation",
    "vision-transformer", "recurrent", "transformer", "state-space",
}  # fmt: skip


@pytest.fixture(scope="module")
def rows() -> dict[str, dict[str, Any]]:
    """One child process for all of them, because it imports torch and the tests must not."""
    done = subprocess.run([sys.executable, "bench/estimate.py"], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return {row["file"]: row for row in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize("file", FILES)
def test_a_program_runs_and_takes_what_its_size_class_says(rows: dict[str, dict[str, Any]], file: str) -> None:
    row = rows[file]
    assert row["family"] in FAMILIES
    assert row["shapes"], "it returns a tensor"
    low, high = {"large": (1.0, 15.0), "small": (0.0, 1.0)}[row["size"]]
    assert low <= row["estimate_ms"] < high


def test_the_suite_is_large_enough_and_covers_every_family(rows: dict[str, dict[str, Any]]) -> None:
    assert len(rows) >= 80
    assert sum(row["size"] == "large" for row in rows.values()) >= 60
    assert {row["family"] for row in rows.values()} == FAMILIES


def test_no_two_programs_are_the_same_but_for_their_words() -> None:
    bodies: dict[str, str] = {}
    for file in FILES:
        body = re.sub(r'"""[\s\S]*?"""', "", (SUITE / file).read_text(), count=1)
        body = re.sub(r"\d+", "0", body)
        assert bodies.setdefault(body, file) == file
