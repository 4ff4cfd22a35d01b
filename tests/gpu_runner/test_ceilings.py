"""The ceilings of this machine: measured by the judge, kept, and only ever raised."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_runner import ceilings
from gpu_runner.config import config


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RUNNER_CACHE_DIR", str(tmp_path))
    config.cache_clear()
    yield tmp_path
    monkeypatch.undo()
    config.cache_clear()


def test_nothing_is_known_before_a_measurement(folder: Path) -> None:
    assert ceilings.known("a processor", "2.13.0") == {}


def test_a_busier_measurement_does_not_lower_a_ceiling(folder: Path) -> None:
    ceilings.learn("a processor", "2.13.0", {"bandwidth_bps": 20e9, "peak_flops": 90e9})
    ceilings.learn("a processor", "2.13.0", {"bandwidth_bps": 8e9, "peak_flops": 95e9})
    assert ceilings.known("a processor", "2.13.0") == {"bandwidth_bps": 20e9, "peak_flops": 95e9}


def test_another_device_has_its_own(folder: Path) -> None:
    ceilings.learn("a processor", "2.13.0", {"bandwidth_bps": 20e9, "peak_flops": 90e9})
    assert ceilings.known("another", "2.13.0") == {}


def test_a_damaged_file_is_as_good_as_none(folder: Path) -> None:
    ceilings.learn("a processor", "2.13.0", {"bandwidth_bps": 20e9, "peak_flops": 90e9})
    next(folder.glob("ceilings-*.json")).write_text("{")
    assert ceilings.known("a processor", "2.13.0") == {}
