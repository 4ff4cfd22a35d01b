"""A program's profile on a CUDA device."""

from __future__ import annotations

import pytest

from gpu_runner.contracts import ProfileTask, Source
from tests.gpu_runner.test_cuda import REFERENCE, candidate, target

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("role", ["reference", "candidate"])
def test_a_forward_on_a_gpu_has_its_kernels_and_its_idle_time_by_cause(hands, role):
    files = candidate() if role == "candidate" else None
    report = hands.perform(ProfileTask(target=target(), source=Source(text=REFERENCE), candidate=files))
    assert (report.status, report.reason) == ("measured", "")
    summary = report.summary
    gpu, wall = summary["gpu"], summary["window"]["wall_ns"]
    assert gpu["kernel_count"] >= summary["target"]["iterations"] >= 3
    assert gpu["busy_ns"] + gpu["idle_ns"] == wall
    assert sum(gpu["idle_by_cause_ns"].values()) == gpu["idle_ns"]
    assert summary["verdict"]["class"] != "insufficient"
    names = {kernel["short_name"]: kernel["origin"] for kernel in summary["kernels"]}
    if role == "candidate":
        assert names["scale"] == "own"
        assert report.coverage == pytest.approx(1.0, abs=0.01)
    else:
        assert set(names.values()) == {"torch"}
        assert report.coverage is None
