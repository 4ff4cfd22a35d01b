"""The wheel: pip installs it without an index, kernels are compiled where it is used, strangers learn nothing of the run."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from agents.bundle import members
from agents.wheel import Given, NoWheel, public, wheel
from tests.agents.test_bundle import MODEL, finished

GIVEN = Given("LayerNorm, ReLU & scale", 3, "MIT")
USE = """
import torch, {package} as made
model = made.ModelNew(256)
x = torch.randn(8, 256)
want = torch.relu(model.norm(x)) * 2
assert torch.allclose(model(x), want, atol=1e-5), (model(x) - want).abs().max()
print(made.__version__, made.prepare())
"""


def installed(path: Path, data: bytes) -> Path:
    """The Python of a fresh virtual environment that sees this one's torch and has the wheel."""
    environment = path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True, timeout=120)
    python = environment / "bin" / "python"
    site = next(environment.glob("lib/python*/site-packages"))
    # This environment's packages come last, so that what is installed there is what is tested.
    (site / "above.pth").write_text("\n".join(p for p in sys.path if p.endswith("site-packages")) + "\n")
    file = path / GIVEN.filename
    file.write_bytes(data)
    command = [str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert (site / GIVEN.package / "__init__.py").is_file()
    return python


def use(python: Path, path: Path, *given: str, **more: str) -> subprocess.CompletedProcess[str]:
    code = given or ("-c", USE.format(package=GIVEN.package))
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "XDG_CACHE_HOME": str(path / "cache")} | more
    return subprocess.run([str(python), *code], cwd=path, env=env, capture_output=True, text=True, timeout=120)


def test_pip_installs_it_and_its_kernels_are_compiled_once_at_first_use(tmp_path: Path) -> None:
    state, blobs = finished()
    python = installed(tmp_path, wheel(members(state, blobs, "c1"), GIVEN))
    (tmp_path / "bare").mkdir()
    bare = use(python, tmp_path, PATH=str(tmp_path / "bare"))
    assert bare.returncode == 1
    assert "cannot compile its kernels here: no C++ compiler was found; install g++" in bare.stderr
    done = use(python, tmp_path)
    assert done.returncode == 0, done.stderr
    version, place = done.stdout.split()
    assert version == "3"
    library = Path(place) / "libkernels.so"
    before = library.stat().st_mtime_ns
    again = use(python, tmp_path, PATH=str(tmp_path / "bare"))  # no compiler: it must be found where it was put
    assert again.returncode == 0, again.stderr
    assert library.stat().st_mtime_ns == before
    assert [p.name for p in (tmp_path / "cache" / "stitchweb").iterdir()] == [library.parent.name]
    verified = use(python, tmp_path, "-m", f"{GIVEN.package}.verify", "--draws", "1", "--rounds", "2", "--samples", "1")
    assert verified.returncode == 0, verified.stdout + verified.stderr


def test_the_wheel_says_what_it_is_and_needs_and_is_the_same_each_time() -> None:
    state, blobs = finished()
    data = wheel(members(state, blobs, "c1"), GIVEN)
    assert data == wheel(members(state, blobs, "c1"), GIVEN)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        told = archive.read(f"{GIVEN.package}-3.dist-info/METADATA").decode()
        listed = {line.split(",")[0] for line in archive.read(f"{GIVEN.package}-3.dist-info/RECORD").decode().splitlines()}
        assert listed == set(archive.namelist())
    assert "License-Expression: MIT\n" in told
    assert "Requires-Dist: torch\n" in told
    assert "PyTorch and a C++ compiler" in told
    assert "LicenseRef-Proprietary" in _metadata_of(wheel(members(state, blobs, "c1"), Given("x", 1)))


def _metadata_of(data: bytes) -> str:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return archive.read(next(n for n in archive.namelist() if n.endswith("METADATA"))).decode()


def test_what_strangers_get_tells_nothing_of_the_run_and_numbers_only_where_they_may() -> None:
    state, blobs = finished()
    state = state.model_copy(update={"run": "run-4711", "name": "secret-name"})
    whole = members(state, blobs, "c1")
    assert "run-4711" in whole["result.json"]
    for numbers, said in ((None, ""), ({"over_eager": 1.4, "protocol": "strict/4"}, "1.40× as fast as eager.")):
        given = public(whole, GIVEN, numbers, said)
        text = "\n".join(given.values())
        for hidden in ("run-4711", "secret-name", "candidate_ms", "usage", "scripted"):
            assert hidden not in text, hidden
        assert ("1.40×" in text) is bool(said)
        assert json.loads(given["result.json"]).get("numbers") == numbers


def test_a_candidate_without_python_gets_a_reason_and_no_wheel() -> None:
    state, blobs = finished()
    rest = {path: text for path, text in members(state, blobs, "c1").items() if path != "model_new.py"}
    with pytest.raises(NoWheel, match="Take the zip"):
        wheel(rest, GIVEN)


@pytest.mark.parametrize("name", ['""" + evil + """', "a\\", "\u0661\u0662 @PACKAGE@", "x" * 120, "日本"])
def test_no_name_breaks_the_package(name: str) -> None:
    state, blobs = finished(MODEL)
    given = Given(name, 1)
    with zipfile.ZipFile(io.BytesIO(wheel(members(state, blobs, "c1"), given))) as archive:
        compile(archive.read(f"{given.package}/__init__.py").decode(), "init", "exec")
    assert given.package.isidentifier()
