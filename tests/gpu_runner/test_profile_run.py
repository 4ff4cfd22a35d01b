"""A program's profile on this machine, in a real sandbox."""

from __future__ import annotations

import json

import pytest

from gpu_runner.contracts import CandidateFiles, ProfileTask, Source
from tests.gpu_runner.programs import PLAIN, REFERENCE


@pytest.mark.parametrize("role", ["reference", "candidate"])
def test_a_programs_operations_its_tree_and_its_verdict(hands, role):
    files = CandidateFiles(files={"model_new.py": PLAIN}) if role == "candidate" else None
    report = hands.perform(ProfileTask(target="cpu", source=Source(text=REFERENCE), candidate=files))
    assert (report.status, report.role, report.reason) == ("measured", role, "")
    summary = report.summary
    assert {"native_layer_norm", "gelu"} <= {kernel["short_name"] for kernel in summary["kernels"]}
    assert summary["target"]["iterations"] >= 3
    assert sum(k["share_pct"] for k in summary["kernels"]) == pytest.approx(100, abs=1)
    assert summary["tree"]["value_ns"] == summary["window"]["wall_ns"] // summary["target"]["iterations"]
    assert summary["cpu"]["parallel_eff_pct"] > 0
    assert report.finding == summary["verdict"]["sentence"] == summary["verdicts"][0]["sentence"]
    assert (report.coverage is None) == (role == "reference")
    assert all(fact["shown_in"] is not None for verdict in summary["verdicts"] for fact in verdict["evidence"])
    json.dumps(summary, allow_nan=False)


def test_a_program_that_fails_has_no_profile_and_the_reason(hands):
    broken = CandidateFiles(files={"model_new.py": PLAIN.replace("F.gelu(self.norm(x))", "x.no_such_method()")})
    report = hands.perform(ProfileTask(target="cpu", source=Source(text=REFERENCE), candidate=broken))
    assert (report.status, report.summary) == ("unavailable", None)
    assert "no_such_method" in report.reason
