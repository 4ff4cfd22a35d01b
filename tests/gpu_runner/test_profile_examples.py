"""The profile of every example: all that its page draws is there. What it says is checked by hand, see docs/profiling.md."""

from __future__ import annotations

import pytest

from gpu_runner.contracts import ProfileTask, Source
from tests.gpu_runner.test_cuda import EXAMPLES

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_an_example_has_its_tree_its_operations_its_roofline_and_a_sentence(hands, path):
    report = hands.perform(ProfileTask(target="cpu", source=Source(text=path.read_text()), candidate=None, fresh=True))
    assert (report.status, report.reason) == ("measured", "")
    summary = report.summary
    assert summary["tree"]["children"]
    assert sum(child["value_ns"] for child in summary["tree"]["children"]) <= summary["tree"]["value_ns"]
    assert sum(kernel["share_pct"] for kernel in summary["kernels"]) == pytest.approx(100, abs=2)
    points = [k["counters"] for k in summary["kernels"] if k["counters"] and k["counters"]["intensity"]]
    assert points, "no operation has both bytes and arithmetic"
    assert all(0 < point["flop_rate"] < 1e13 for point in points)
    assert summary["device"]["mem_bandwidth_Bps"] > 1e8
    assert summary["device"]["peak_flops"]["float32"] > 1e9
    assert summary["verdict"]["class"] != "insufficient"
    assert summary["figures"]["counters"]["status"] == "estimated"
    assert report.finding.endswith(".")
