"""Candidates without Python: `entry.json` says how the library's one function is called, and all the checks are the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpu_runner.contracts import PROTOCOLS, CandidateFiles, CheckReport, CheckTask, Mode, Source, TimeTask, TimingReport
from gpu_runner.contracts.entry import parse_entry
from gpu_runner.verify import BadInput, read_candidate
from tests.gpu_runner.programs import REFERENCE

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
NORM: dict[str, Any] = {
    "symbol": "run",
    "inputs": [{"name": "x", "dtype": "float32", "shape": ["rows", "width"]}],
    "outputs": [{"name": "y", "dtype": "float32", "shape": ["rows", "width"]}],
    "arguments": [
        {"input": "x"}, {"weight": "norm.weight"}, {"weight": "norm.bias"}, {"output": "y"}, {"size": "rows"},
        {"size": "width"},
    ],
}  # fmt: skip
KERNEL = """
#include <cmath>
#include <cstdint>
extern "C" void run(const float* x, const float* w, const float* b, float* y, int64_t rows, int64_t width) {
    for (int64_t r = 0; r < rows; ++r, x += width, y += width) {
        double mean = 0, squares = 0;
        for (int64_t i = 0; i < width; ++i) mean += x[i];
        mean /= width;
        for (int64_t i = 0; i < width; ++i) squares += (x[i] - mean) * (x[i] - mean);
        for (int64_t i = 0; i < width; ++i) {
            float v = (x[i] - mean) / std::sqrt(squares / width + 1e-5) * w[i] + b[i];
            y[i] = 0.5f * v * (1 + std::erf(v * 0.70710678118654752f));
        }
    }
}
"""


def files(entry: dict[str, Any], kernel: str) -> CandidateFiles:
    return CandidateFiles(files={"entry.json": json.dumps(entry), "kernels/run.cpp": kernel})


@pytest.fixture
def judged(hands):
    def work(
        candidate: CandidateFiles, reference: str = REFERENCE, mode: Mode = Mode.EVAL, protocol: str = "quick"
    ) -> CheckReport:
        task = CheckTask(
            target="cpu", source=Source(text=reference), candidate=candidate, protocol=PROTOCOLS[protocol], mode=mode
        )
        report = hands.perform(task)
        assert isinstance(report, CheckReport)
        return report

    return work


def test_a_right_one_is_verified_and_all_its_time_is_its_own_kernels(judged):
    report = judged(files(NORM, KERNEL))
    assert report.verdict == "verified", (report.sentence, report.log)
    assert report.coverage is not None
    assert report.coverage > 0.5
    assert {row.name: row.value for row in report.rows}["its own kernels matter"] == "yes"


def test_it_is_timed_like_any_other(hands):
    task = TimeTask(target="cpu", source=Source(text=REFERENCE), candidate=files(NORM, KERNEL), protocol=PROTOCOLS["quick"])
    report = hands.perform(task)
    assert isinstance(report, TimingReport)
    assert report.verdict is None, report.sentence
    assert {arm.arm for arm in report.arms} == {"eager", "candidate"}


def test_the_example_of_the_repository_is_right(judged):
    text = (EXAMPLES / "layernorm_gelu.py").read_text().replace("8, 512, 1024", "2, 64, 1024")
    report = judged(read_candidate(EXAMPLES / "native" / "layernorm_gelu"), text)
    assert report.verdict == "verified", (report.sentence, report.log)


def test_a_wrong_result_is_wrong(judged):
    report = judged(files(NORM, KERNEL.replace("+ b[i]", "+ 1.01f * b[i] + 1e-3f")))
    assert (report.verdict, report.hack) == ("incorrect", "precision_downgrade")


MANY = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(6)
    def forward(self, x, k, scale):
        y = self.norm(x)
        return {"sum": (y * scale).sum(1), "first": (y[:, :k] > 0)}
def get_inputs():
    return [torch.randn(32, 6), 3, 0.5]
"""
MANY_ENTRY = {
    "symbol": "run",
    "inputs": [
        {"name": "x", "dtype": "float32", "shape": ["n", 6]}, {"name": "k", "dtype": "int64"},
        {"name": "s", "dtype": "float32"},
    ],
    "outputs": [{"name": "sum", "dtype": "float32", "shape": ["n"]}, {"name": "first", "dtype": "bool", "shape": ["n", 3]}],
    "returns": "dict",
    "status": True,
    "arguments": [
        "stream", {"input": "x"}, {"input": "k"}, {"input": "s"}, {"output": "first"}, {"output": "sum"},
        {"scratch": "n * 6 * 4"},
        {"weight": "norm.running_mean"}, {"weight": "norm.running_var"}, {"weight": "norm.weight"}, {"weight": "norm.bias"},
        {"double": 1e-5}, {"size": "(n * 6) // 6"}, {"int": -7}, "threads",
    ],
}  # fmt: skip
MANY_KERNEL = """
#include <cmath>
#include <cstdint>
extern "C" int run(void* stream, const float* x, int64_t k, float s, bool* first, float* sum, float* scratch, float* mean,
                   float* variance, const float* w, const float* b, double epsilon, int64_t n, int64_t seven, int threads) {
    if (stream || seven != -7 || threads < 1 || k != 3) return 5;
    for (int64_t i = 0; i < n * 6; ++i)
        scratch[i] = (x[i] - mean[i % 6]) / std::sqrt(variance[i % 6] + epsilon) * w[i % 6] + b[i % 6];
    for (int64_t r = 0; r < n; ++r) {
        sum[r] = 0;
        for (int c = 0; c < 6; ++c) sum[r] += scratch[r * 6 + c] * s;
        for (int c = 0; c < 3; ++c) first[r * 3 + c] = scratch[r * 6 + c] > 0;
    }
    return 0;
}
"""


def test_numbers_buffers_scratch_memory_and_several_results(judged):
    report = judged(files(MANY_ENTRY, MANY_KERNEL), MANY)
    assert report.verdict == "verified", (report.sentence, report.log)
    assert "buffers" in {row.name for row in report.rows}


def test_buffers_must_end_as_the_reference_leaves_them(judged):
    report = judged(files(MANY_ENTRY, MANY_KERNEL.replace("return 0;", "mean[2] += 1; return 0;")), MANY)
    assert report.verdict == "incorrect"
    assert "buffer" in report.sentence


def test_a_function_that_says_it_failed_ends_the_job_with_its_number(judged):
    report = judged(files(MANY_ENTRY, MANY_KERNEL.replace("k != 3", "k == 3")), MANY)
    assert report.verdict == "crashed"
    assert "answered 5 instead of 0" in report.sentence


WRONG = {
    "another width": ({"inputs": [{"name": "x", "dtype": "float32", "shape": ["rows", 128]}]}, "declares"),
    "another rank": ({"inputs": [{"name": "x", "dtype": "float32", "shape": ["rows", "width", 1]}]}, "has the shape [48, 256]"),
    "one size for two": ({"inputs": [{"name": "x", "dtype": "float32", "shape": ["rows", "rows"]}]}, "with rows = 48"),
    "another dtype": ({"inputs": [{"name": "x", "dtype": "float16", "shape": ["rows", "width"]}]}, "of dtype float32"),
    "an input too many": ({"inputs": [*NORM["inputs"], {"name": "z", "dtype": "int64"}]}, "takes 1 inputs"),
    "a result of another shape": ({"outputs": [{"name": "y", "dtype": "float32", "shape": ["rows * 1", "width", 1]}]}, "shape"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_does_not_fit_the_reference_is_refused_with_both_sides(judged, what):
    change, said = WRONG[what]
    entry = NORM | change
    if what in ("another width", "one size for two"):
        entry |= {"outputs": [{"name": "y", "dtype": "float32", "shape": ["rows", 256]}]}
        entry |= {"arguments": [a if a != {"size": "width"} else {"size": 256} for a in NORM["arguments"]]}
    report = judged(files(entry, KERNEL))
    assert report.verdict == "incorrect"
    assert said in report.sentence


def test_a_weight_that_the_reference_lacks_is_refused_with_those_it_has(judged):
    entry = NORM | {"arguments": [a if a != {"weight": "norm.bias"} else {"weight": "bias"} for a in NORM["arguments"]]}
    report = judged(files(entry, KERNEL))
    assert report.verdict == "incorrect"
    assert "norm.bias, norm.weight" in report.sentence


def test_a_function_that_is_not_there_fails_the_build(judged):
    report = judged(files(NORM | {"symbol": "missing"}, KERNEL))
    assert report.verdict == "build-failed"
    assert "names the function missing, which no source" in report.sentence


def test_a_crash_stays_in_its_process(judged):
    report = judged(files(NORM, 'extern "C" void run() { *(volatile int*)8 = 1; }'))
    assert report.verdict == "crashed"
    assert "SIGSEGV" in report.sentence
    assert judged(files(NORM, KERNEL)).verdict == "verified"


MALFORMED = {
    "no JSON": ("{", "not valid JSON"),
    "an unknown field": (NORM | {"simbol": "x"}, "simbol"),
    "no symbol": ({k: v for k, v in NORM.items() if k != "symbol"}, "symbol"),
    "a symbol that is no name": (NORM | {"symbol": "run()"}, "symbol"),
    "an unknown dtype": (NORM | {"inputs": [{"name": "x", "dtype": "float", "shape": []}]}, "inputs.0.dtype"),
    "a number of a tensor's dtype": (NORM | {"inputs": [{"name": "x", "dtype": "float16"}]}, "it is a number"),
    "an unknown input": (NORM | {"arguments": [*NORM["arguments"], {"input": "q"}]}, "declared are x"),
    "an unknown size": (NORM | {"arguments": [*NORM["arguments"], {"size": "depth + 1"}]}, "uses the size depth"),
    "an expression with a call": (NORM | {"arguments": [*NORM["arguments"], {"size": "max(rows, 1)"}]}, "whole numbers"),
    "an expression without end": (NORM | {"arguments": [*NORM["arguments"], {"size": "(" * 150}]}, "no expression"),
    "an argument of two kinds": (NORM | {"arguments": [{"input": "x", "size": 1}]}, "exactly one"),
    "an output nobody writes": (NORM | {"arguments": [{"input": "x"}]}, "nothing could write it"),
    "two of one name": (NORM | {"inputs": [*NORM["inputs"], *NORM["inputs"]]}, "given twice"),
    "a tensor for two": (NORM | {"outputs": [*NORM["outputs"], NORM["outputs"][0] | {"name": "z"}],
                                 "arguments": [*NORM["arguments"], {"output": "z"}], "returns": "tensor"}, "2 outputs"),
}  # fmt: skip


@pytest.mark.parametrize("what", MALFORMED)
def test_a_malformed_description_is_refused_before_anything_runs(what):
    given, said = MALFORMED[what]
    text = given if isinstance(given, str) else json.dumps(given)
    with pytest.raises(ValueError, match=r"entry\.json") as refused:
        parse_entry(text)
    assert said in str(refused.value)
    with pytest.raises(ValueError):
        CandidateFiles(files={"entry.json": text, "kernels/run.cpp": KERNEL})


def test_python_and_a_description_exclude_each_other_and_a_description_needs_a_source(tmp_path):
    with pytest.raises(ValueError, match=r"either model_new\.py or entry\.json"):
        CandidateFiles(files={"entry.json": json.dumps(NORM), "model_new.py": "", "kernels/run.cpp": KERNEL})
    with pytest.raises(ValueError, match="no source in kernels/"):
        CandidateFiles(files={"entry.json": json.dumps(NORM)})
    (tmp_path / "entry.json").write_text("{}")
    with pytest.raises(BadInput, match="no source in kernels/"):
        read_candidate(tmp_path)


def test_the_examples_functions_are_the_offline_engineers() -> None:
    """A candidate brings all its sources, so the example has a copy: of what is tested there, and of nothing else."""
    copy = EXAMPLES / "native" / "layernorm_gelu" / "kernels" / "fastmath.h"
    assert copy.read_text() == (ROOT / "agents/engineers/offline/emit/headers/fastmath.h").read_text()
