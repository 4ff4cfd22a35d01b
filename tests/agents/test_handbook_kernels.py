"""The handbook's kernels compute what their pages say: those for processors here, those for GPUs where one is."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from agents.handbook import pages
from tests.agents import handbook_cpu, handbook_gpu, handbook_gpu_products  # noqa: F401  they register their cases
from tests.agents.handbook_build import COMMANDS, built, compiler, of
from tests.agents.handbook_world import CASES, World


def test_every_page_has_a_case() -> None:
    assert set(CASES) == {page.name for page in pages()}


def right(architecture: str, device: str, folder: Path) -> None:
    library, _ = built(folder, architecture)
    world, wrong = World(library, device), []
    for page in of(architecture):
        try:
            CASES[page.name](world)
        except AssertionError as error:
            wrong.append(f"{page.name}: {error}")
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize("architecture", ["cpu", "avx512"])
def test_kernels_for_processors_are_right(architecture: str, tmp_path: Path) -> None:
    flags = Path("/proc/cpuinfo").read_text()
    if compiler(architecture) is None or ("avx2" if architecture == "cpu" else "avx512f") not in flags:
        pytest.skip(f"{architecture} needs {COMMANDS[architecture][0]} and a processor that has the instructions")
    right(architecture, "cpu", tmp_path)


@pytest.mark.gpu
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_90a"])
def test_kernels_for_gpus_are_right(architecture: str, tmp_path: Path) -> None:
    if compiler(architecture) is None:
        pytest.skip("nvcc is not installed")
    device = torch.cuda.get_device_capability()
    if device < ((8, 0) if architecture == "sm_80" else (9, 0)) or (architecture == "sm_90a" and device != (9, 0)):
        pytest.skip(f"{architecture} does not run on compute capability {device[0]}.{device[1]}")
    right(architecture, "cuda", tmp_path)
