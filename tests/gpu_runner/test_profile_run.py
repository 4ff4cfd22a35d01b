"""A program's profile on this machine, in a real sandbox."""

from __future__ import annotations

import json

import pytest

from gpu_runner.__main__ import main
from gpu_runner.contracts import CandidateFiles, DeviceInfo, ProfileTask, Source
from gpu_runner.profile import kept
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
    assert [step["tool"] for step in summary["collectors"]] == ["torch_profiler"]
    assert summary["roof"]["bound"] in ("memory", "compute")
    assert (summary["target"]["moved_bytes"] is None) == (role == "candidate")
    points = [kernel["counters"] for kernel in summary["kernels"] if kernel["counters"]]
    assert all(point["status"] == "estimated" and point["flop_rate"] > 0 for point in points)
    assert bool(points) == (role == "reference")
    json.dumps(summary, allow_nan=False)


def test_a_references_profile_is_kept_under_what_makes_it_the_same():
    device = DeviceInfo(kind="cpu", name="A processor", target="cpu", cores=2, torch="2.13.0")
    name = kept.key("program", device)
    assert name == kept.key("program", device.model_copy(update={"bandwidth_bps": 1e10}))
    others = [kept.key("another", device)]
    others += [kept.key("program", device.model_copy(update=change)) for change in ({"torch": "2.14"}, {"name": "Another"})]
    assert name not in others
    assert len(set(others)) == 3


def test_a_references_profile_is_measured_once_as_long_as_the_machine_stays_what_it_was(hands, monkeypatch, tmp_path):
    monkeypatch.setattr("gpu_runner.shelf.Shelf._folder", lambda self: tmp_path)
    monkeypatch.setattr("gpu_runner.profile.collect.BUSY_PCT", 101.0)
    monkeypatch.setattr("gpu_runner.profile.collect.SAME", 1000.0)  # others may use this one
    task = ProfileTask(target="cpu", source=Source(text=REFERENCE), candidate=None)
    first, again = hands.perform(task), hands.perform(task)
    assert (first.cached, again.cached) == (False, True)
    assert again.summary["kernels"] == first.summary["kernels"]
    assert again.finding == again.summary["verdict"]["sentence"]
    [file] = tmp_path.glob("*.json")
    summary = json.loads(file.read_text())
    summary["target"]["call_ns"] *= 1_000_000
    file.write_text(json.dumps(summary))
    assert not hands.perform(task).cached


def test_a_program_that_fails_has_no_profile_and_the_reason(hands):
    broken = CandidateFiles(files={"model_new.py": PLAIN.replace("F.gelu(self.norm(x))", "x.no_such_method()")})
    report = hands.perform(ProfileTask(target="cpu", source=Source(text=REFERENCE), candidate=broken))
    assert (report.status, report.summary) == ("unavailable", None)
    assert "no_such_method" in report.reason


def test_the_command_profiles_a_program_and_says_what_bounds_it(tmp_path, capsys):
    file = tmp_path / "program.py"
    file.write_text(REFERENCE)
    assert main(["profile", "run", str(file), "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["schema"] == "stitchweb.profile/1"
    assert "torch.profiler: measured" in said.err or "measured before" in said.err


def test_the_command_refuses_a_program_that_cannot_be_profiled_with_one_sentence(tmp_path, capsys):
    file = tmp_path / "program.py"
    assert main(["profile", "run", str(file)]) == 2
    file.write_text(REFERENCE.replace("F.gelu(self.norm(x))", "x.no_such_method()"))
    assert main(["profile", "run", str(file)]) == 4
    assert "no_such_method" in capsys.readouterr().err.splitlines()[-1]
