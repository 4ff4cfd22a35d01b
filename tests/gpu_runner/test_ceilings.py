"""The ceilings of this machine: measured by the judge, kept, and only ever raised."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from gpu_runner import ceilings
from gpu_runner.child import ceilings as measuring
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


def test_tensor_cores_have_ceilings_of_their_own_which_older_files_lack(folder: Path) -> None:
    ceilings.learn("a GPU", "2.13.0", {"bandwidth_bps": 4e12, "peak_flops": 50e12})
    halves = {"float16_flops": 700e12, "bfloat16_flops": 690e12}
    ceilings.learn("a GPU", "2.13.0", {"bandwidth_bps": 3e12, "peak_flops": 40e12, **halves})
    assert ceilings.known("a GPU", "2.13.0") == {"bandwidth_bps": 4e12, "peak_flops": 50e12, **halves}
    ceilings.learn("a GPU", "2.13.0", {"bandwidth_bps": 3e12, "peak_flops": 40e12})
    assert ceilings.known("a GPU", "2.13.0")["float16_flops"] == 700e12


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_product_is_measured_in_the_type_that_is_asked_for(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    product = torch.mm
    monkeypatch.setattr(torch, "mm", lambda x, y, out: seen.append({x.dtype, y.dtype, out.dtype}) or product(x, y, out=out))
    assert 0 < measuring.product("cpu", dtype, 32) < 1e15
    assert seen == [{dtype}] * (measuring.PASSES + 1)


def test_a_processor_is_measured_in_float32_alone_and_keeps_its_threads() -> None:
    before = torch.get_num_threads()
    found = measuring.measure("cpu", 1, 1 << 20)
    assert set(found) == {"bandwidth_bps", "peak_flops"}
    assert all(figure > 0 for figure in found.values())
    assert torch.get_num_threads() == before


def test_another_device_has_its_own(folder: Path) -> None:
    ceilings.learn("a processor", "2.13.0", {"bandwidth_bps": 20e9, "peak_flops": 90e9})
    assert ceilings.known("another", "2.13.0") == {}


def test_a_damaged_file_is_as_good_as_none(folder: Path) -> None:
    ceilings.learn("a processor", "2.13.0", {"bandwidth_bps": 20e9, "peak_flops": 90e9})
    next(folder.glob("ceilings-*.json")).write_text("{")
    assert ceilings.known("a processor", "2.13.0") == {}
