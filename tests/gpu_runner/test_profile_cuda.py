"""A program's profile on a CUDA device: torch.profiler always, nsys and ncu where the machine has them."""

from __future__ import annotations

import pytest

from gpu_runner.contracts import Limits, ProfileTask, Source
from gpu_runner.profile import installed
from tests.gpu_runner.planted import PLANTED, bound_by
from tests.gpu_runner.test_cuda import REFERENCE, candidate, target

pytestmark = pytest.mark.gpu


def profiled(hands, text: str = REFERENCE, **more: object):
    limits = Limits(wall_s=180, memory_mib=16384)
    task = ProfileTask(target=target(), limits=limits, source=Source(text=text), fresh=True, **{"candidate": None, **more})
    report = hands.perform(task)
    assert (report.status, report.reason) == ("measured", "")
    return report


def steps(report) -> dict[str, tuple[str, str]]:
    """The first step of each tool: its reason and its sentence."""
    found: dict[str, tuple[str, str]] = {}
    for step in report.summary["collectors"]:
        found.setdefault(step["tool"], (step["reason"], step["sentence"]))
    return found


@pytest.fixture
def torch_alone(monkeypatch):
    """As on a machine that has no other profiler."""
    monkeypatch.setattr(installed, "nsys", lambda: None)
    monkeypatch.setattr(installed, "ncu", lambda: None)


@pytest.mark.parametrize("role", ["reference", "candidate"])
def test_a_forward_on_a_gpu_has_its_kernels_and_its_idle_time_by_cause(hands, role):
    report = profiled(hands, candidate=candidate() if role == "candidate" else None)
    summary = report.summary
    gpu, wall = summary["gpu"], summary["window"]["wall_ns"]
    assert gpu["kernel_count"] >= summary["target"]["iterations"] >= 3
    assert gpu["busy_ns"] + gpu["idle_ns"] == wall
    assert sum(gpu["idle_by_cause_ns"].values()) == gpu["idle_ns"]
    assert summary["verdict"]["class"] != "insufficient", summary["verdict"]["sentence"]
    names = {kernel["short_name"]: kernel["origin"] for kernel in summary["kernels"]}
    if role == "candidate":
        assert names["scale"] == "own"
        assert report.coverage == pytest.approx(1.0, abs=0.01)
    else:
        assert set(names.values()) == {"torch"}
        assert report.coverage is None


@pytest.mark.skipif(installed.nsys() is None, reason="Nsight Systems is not installed")
def test_nsys_records_in_the_sandbox_or_says_what_it_misses(hands):
    report = profiled(hands)
    reason, sentence = steps(report)["nsys"]
    assert reason in ("", "no_importer"), sentence
    assert report.summary["source"]["tool"] == ("nsys" if not reason else "torch_profiler")
    assert report.summary["window"]["basis"] == ("nvtx" if not reason else "annotation")
    assert report.summary["ops"], "what launched the kernels is torch.profiler's to say"


@pytest.mark.skipif(installed.ncu() is None, reason="Nsight Compute is not installed")
def test_ncu_reads_the_counters_of_the_kernels_that_matter_or_says_why_not(hands):
    report = profiled(hands, PLANTED["memory-bound"])
    reason, sentence = steps(report)["ncu"]
    assert reason in ("", "no_permission", "no_library"), sentence
    figures = report.summary["figures"]["counters"]
    assert figures["status"] == ("measured" if not reason else "estimated"), figures
    if not reason:
        [top] = [k for k in report.summary["kernels"][:1] if k["counters"]]
        assert top["counters"]["dram_pct"] > 50
        assert top["verdict"]["class"] == "memory-bound"


@pytest.mark.parametrize("name", PLANTED)
def test_torch_profiler_alone_names_what_bounds_a_program(hands, torch_alone, name):
    report = profiled(hands, PLANTED[name])
    verdicts = report.summary["verdicts"]
    assert bound_by([v["class"] for v in verdicts]) == name, [v["sentence"] for v in verdicts]
    assert steps(report)["nsys"][0] == "not_installed"


@pytest.mark.parametrize("name", PLANTED)
def test_all_tools_together_name_what_bounds_a_program(hands, name):
    report = profiled(hands, PLANTED[name])
    verdicts = report.summary["verdicts"]
    assert bound_by([v["class"] for v in verdicts]) == name, [v["sentence"] for v in verdicts]
