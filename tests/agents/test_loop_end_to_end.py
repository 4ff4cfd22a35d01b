"""The whole loop with nothing faked but the engineer: real sandbox, compiler, checks and timing, as the command runs them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import zipfile
from pathlib import Path

import pytest

from agents.events import Event, View, fold_all
from agents.state import State

pytestmark = pytest.mark.e2e
ROOT = Path(__file__).resolve().parents[2]

# Forty passes over 8 MB where one is enough: the gain is far above any noise of a busy machine.
REFERENCE = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        for _ in range(20):
            x = x * 1.01 + 0.5
        return x

def get_inputs():
    return [torch.randn(2_000_000)]
"""

MODEL = """
import ctypes
from pathlib import Path

import torch

lib = ctypes.CDLL(str(Path(__file__).with_name("libkernels.so")))

class ModelNew(torch.nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        lib.chain(ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(out.data_ptr()), ctypes.c_long(x.numel()))
        return out
"""

KERNEL = """
extern "C" void chain(const float* x, float* out, long n) {
#pragma omp parallel for simd
    for (long i = 0; i < n; ++i) {
        float v = x[i];
#pragma GCC unroll 20
        for (int k = 0; k < TIMES; ++k) v = v * 1.01f + 0.5f;
        out[i] = v;
    }
}
"""

FLAGS = 'flags = ["-O3", "-march=native", "-std=c++17", "-fopenmp", "-ffp-contract=fast"]\n'

# The command with a scripted engineer: first a program that is wrong, then one that is right.
PROGRAM = """
import sys
from agents.__main__ import main
from agents.engineers import register
from agents.engineers.scripted import Scripted
from agents.state import Todo

MODEL, KERNEL, FLAGS = {model!r}, {kernel!r}, {flags!r}
files = [{{"kernels/chain.cpp": KERNEL.replace("TIMES", n)}} for n in ("19", "20")]
codes = [{{"model_new.py": MODEL, "candidate.toml": FLAGS, **file}} for file in files]
engineer = Scripted(plans=[(Todo(id="", kind="fuse", title="One pass"),)], codes=codes)
register("script", lambda: engineer)
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "chain.py").write_text(REFERENCE)
    (tmp_path / "command.py").write_text(textwrap.dedent(PROGRAM.format(model=MODEL, kernel=KERNEL, flags=FLAGS)))
    return tmp_path


def command(folder: Path) -> list[str]:
    given = ["optimize", "chain.py", "--engineer", "script", "--out", "out", "--json", "--protocol", "quick"]
    return [sys.executable, str(folder / "command.py"), *given]


def started(folder: Path) -> subprocess.Popen[str]:
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "PYTHONPATH": str(ROOT), "HOME": str(folder)}
    return subprocess.Popen(
        command(folder), cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def all_processes() -> dict[tuple[int, str], int]:
    """(pid, start time) to parent, of every process that is not a zombie."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended just now
        if fields[0] != "Z":
            found[int(stat.parent.name), fields[19]] = int(fields[1])
    return found


def descendants(root: int) -> list[tuple[int, str]]:
    parents = all_processes()
    below: list[tuple[int, str]] = []
    layer = [root]
    while layer:
        born = [process for process, parent in parents.items() if parent in layer]
        below += born
        layer = [pid for pid, _ in born]
    return below


def test_a_wrong_program_is_repaired_verified_timed_and_taken_home(folder: Path) -> None:
    process = started(folder)
    out, err = process.communicate(timeout=560)
    assert process.returncode == 0, out + err
    line = json.loads(out.splitlines()[-1])
    assert line["verdict"] == "verified"
    assert line["ci_low"] > 1
    state = State.model_validate_json((folder / "out" / "state.json").read_text())
    assert [str(c.verdict) for c in state.candidates] == ["incorrect", "verified"]
    assert state.best == "c2"
    events = [Event.model_validate_json(text) for text in (folder / "out" / "events.jsonl").read_text().splitlines()]
    view = fold_all(View(), events)
    assert view.best == "c2"
    assert {event.kind for event in events} >= {"analysis.done", "plan.made", "check.row", "timing.round", "run.finished"}
    with zipfile.ZipFile(folder / "out" / "bundle.zip") as archive:
        archive.extractall(folder / "home")
    done = subprocess.run(
        [sys.executable, "verify.py", "--rounds", "3"],
        cwd=folder / "home",
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_ctrl_c_leaves_no_process_behind(folder: Path) -> None:
    process = started(folder)
    assert process.stderr is not None
    said = next(line for line in process.stderr if "Checking c1" in line)
    below = descendants(process.pid)
    assert below, "the hands have processes of their own by now"
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 4, said + out + err
    assert json.loads(out.splitlines()[-1])["verdict"] == "cancelled"
    # A sandbox that was just being prepared ends by itself, once it sees that its parent is gone.
    until = time.monotonic() + 20
    while (left := [born for born in below if born in all_processes()]) and time.monotonic() < until:
        time.sleep(0.1)
    assert not left
