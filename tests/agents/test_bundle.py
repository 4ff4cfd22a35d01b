"""The zip to take home: what is in it, that it is the same each time, and that its own script tells right from wrong."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from agents.blobs import MemoryBlobs
from agents.bundle import bundle, readme
from agents.engineers.scripted import Scripted
from agents.headless import optimize
from agents.state import State
from agents.takehome import verify_script
from gpu_runner.contracts import Speed
from tests.agents.loop_world import FakeHands, options, scripted_name, timing, todo

REFERENCE = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        print("a program may print")
        return nn.functional.relu(self.norm(x)) * 2.0

def get_inputs():
    return [torch.randn(64, 256)]

def get_init_inputs():
    return [256]
"""

MODEL = """
import ctypes
from pathlib import Path

import torch
from torch import nn

lib = ctypes.CDLL(str(Path(__file__).with_name("libkernels.so")))

class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        y = self.norm(x)
        out = torch.empty_like(y)
        lib.relu2(ctypes.c_void_p(y.data_ptr()), ctypes.c_void_p(out.data_ptr()), ctypes.c_long(y.numel()))
        return out
"""

KERNEL = """
extern "C" void relu2(const float* x, float* out, long n) {
#pragma omp parallel for simd
    for (long i = 0; i < n; ++i) out[i] = x[i] > 0 ? x[i] * FACTOR : 0;
}
"""


def finished(model: str = MODEL, kernel: str = KERNEL.replace("FACTOR", "2.0f")) -> tuple[State, MemoryBlobs]:
    engineer = Scripted(plans=[(todo(title="Fuse relu and scale", why="Two passes over memory become one."),)],
                        codes=[{"model_new.py": model, "kernels/relu2.cpp": kernel}])  # fmt: skip
    blobs = MemoryBlobs()
    hands = FakeHands(time=[timing(1.5), timing(1.4, compile_ms=9.0)])
    return optimize(REFERENCE, options(scripted_name(engineer)), hands, blobs, name="norm.py"), blobs


def unpacked(path: Path, *given: str) -> Path:
    state, blobs = finished(*given)
    with zipfile.ZipFile(io.BytesIO(bundle(state, blobs, "c1"))) as archive:
        archive.extractall(path)
    return path


def verify(folder: Path, *given: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "verify.py", "--draws", "2", "--rounds", "3", "--samples", "2", *given]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def test_the_zip_holds_everything_and_is_the_same_each_time() -> None:
    state, blobs = finished()
    first = bundle(state, blobs, "c1")
    assert first == bundle(State.model_validate_json(state.model_dump_json()), blobs, "c1")
    with zipfile.ZipFile(io.BytesIO(first)) as archive:
        assert archive.namelist() == [
            "README.md", "kernels/relu2.cpp", "model_new.py", "reference.py", "result.json", "verify.py",
        ]  # fmt: skip
        facts = json.loads(archive.read("result.json"))
        text = archive.read("README.md").decode()
    assert facts["hashes"]["candidate"] == state.candidate("c1").sha256
    assert facts["seeds"] == [1]
    assert facts["versions"] == {"torch": "2.13.0"}
    assert facts["confirmed"] is True
    assert "**1.40×** as fast as eager" in text
    assert "| torch.compile default | 9 |" in text
    assert "Two passes over memory become one." in text


def test_the_readme_puts_no_number_first_that_is_not_claimed() -> None:
    state, _ = finished()
    sentence = "No speed is claimed (other processes took 127%); measured 1.40× (0.05 to 2.19) against eager."
    found = state.candidate("c1")
    assert found.confirmed is not None
    unsteady = found.confirmed.model_copy(update={"speed": Speed.NOT_CLAIMED, "sentence": sentence})
    text = readme(state, found.model_copy(update={"confirmed": None, "timing": unsteady}))
    assert f"Verdict: **verified**. {sentence}" in text
    assert "**1.40×**" not in text


def test_the_script_says_right_of_a_right_program_and_leaves_the_folder_alone(tmp_path: Path) -> None:
    folder = unpacked(tmp_path)
    before = sorted(p.name for p in folder.rglob("*"))
    done = verify(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "RIGHT" in done.stdout
    assert "over eager" in done.stdout
    assert sorted(p.name for p in folder.rglob("*")) == before


def test_the_script_builds_the_kernels_beside_the_program(tmp_path: Path) -> None:
    folder = unpacked(tmp_path)
    done = verify(folder, "--build")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (folder / "libkernels.so").is_file()
    assert [path.name for path in (folder / "kernels").iterdir()] == ["relu2.cpp"]
    assert "`python verify.py --build`" in (folder / "README.md").read_text()


def test_the_script_says_that_a_program_without_python_cannot_be_checked_by_it(tmp_path: Path) -> None:
    folder = unpacked(tmp_path)
    (folder / "model_new.py").unlink()
    done = verify(folder)
    assert done.returncode == 2
    assert "entry.json" in done.stderr
    assert "Traceback" not in done.stderr


RIGHT = KERNEL.replace("FACTOR", "2.0f")


@pytest.mark.parametrize(
    ("model", "kernel", "why"),
    [
        (MODEL, KERNEL.replace("FACTOR", "2.01f"), "elements are off"),
        (MODEL.replace("return out", "return out[:8]"), RIGHT, "has the form"),
        # right on the default weights only: a kernel that leaves the scale and shift of the norm out
        (MODEL.replace("self.norm(x)", "nn.functional.layer_norm(x, (256,))"), RIGHT, "elements are off"),
    ],
)
def test_the_script_says_wrong_of_a_wrong_program(model: str, kernel: str, why: str, tmp_path: Path) -> None:
    done = verify(unpacked(tmp_path, model, kernel))
    assert done.returncode == 1, done.stdout + done.stderr
    assert why in done.stdout


def test_the_script_says_when_it_cannot_build(tmp_path: Path) -> None:
    done = verify(unpacked(tmp_path, MODEL, "this is no C++"))
    assert done.returncode == 2
    assert "the build failed" in done.stderr


def test_the_script_is_valid_for_every_python_that_is_supported() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--ignore", "S,TID", "--stdin-filename", "verify.py", "-"],
        input=verify_script(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def test_without_torch_the_script_says_what_to_do_and_that_nothing_was_checked(tmp_path: Path) -> None:
    (tmp_path / "verify.py").write_text(verify_script())
    (tmp_path / "torch.py").write_text("raise ImportError('none here')\n")  # stands first on the path of a script
    done = subprocess.run([sys.executable, str(tmp_path / "verify.py")], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "no torch" in done.stderr
    assert "Traceback" not in done.stderr
