"""The repository holds together: pins, directions of imports, documents that tell the truth, images that start what exists."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FORBIDDEN = ("django", "channels", "celery", "redis", "torch", "litellm", "stitchweb")
PAGES = sorted(path for pattern in ("*.md", "*/*.md", "*/*/*.md") for path in ROOT.glob(pattern) if ".venv" not in path.parts)


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


def test_imports_keep_their_direction() -> None:
    answer = run(str(Path(sys.executable).with_name("lint-imports")))
    assert answer.returncode == 0, answer.stdout + answer.stderr


@pytest.mark.parametrize("package", ["agents", "gpu_runner"])
def test_the_brain_and_the_hands_load_no_framework_and_no_torch(package: str) -> None:
    """Static analysis cannot see an import by string: load every module in a fresh process and look."""
    program = f"""
import importlib, pkgutil, sys
import {package}
# Inside the sandbox; the one user of Celery; a trainer's process.
apart = ("gpu_runner.child", "gpu_runner.worker", "agents.training.learning")
for module in pkgutil.walk_packages({package}.__path__, "{package}."):
    if not module.name.startswith(apart) and not module.name.endswith("__main__"):
        importlib.import_module(module.name)
print(len([name for name in sys.modules if name.startswith("{package}")]))
print(" ".join(name for name in {FORBIDDEN!r} if name in sys.modules))
"""
    answer = run(sys.executable, "-c", program)
    assert answer.returncode == 0, answer.stderr
    loaded, found = answer.stdout.splitlines()
    assert int(loaded) > 3, "the walk found the package's modules"
    assert found == ""


def test_dependencies_are_exact_pins_and_their_pages_are_true() -> None:
    answer = run(sys.executable, "tools/licences.py", "--check")
    assert answer.returncode == 0, answer.stderr


def test_a_dependency_without_a_row_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import licences

    page = tmp_path / "dependencies.md"
    rows = (ROOT / "docs" / "dependencies.md").read_text().splitlines(keepends=True)
    page.write_text("".join(row for row in rows if not row.startswith("| nh3 ")).replace("| 2.21.0 |", "| 2.20.0 |"))
    monkeypatch.setattr(licences, "DEPENDENCIES", page)
    found = " ".join(licences.differences())
    assert "no row for nh3" in found
    assert "says pygments 2.20.0, the requirements say 2.21.0" in found


def test_a_loose_pin_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import closure

    file = tmp_path / "requirements.txt"
    file.write_text("# a comment\nDjango>=5.2\n")
    with pytest.raises(ValueError, match=r"requirements\.txt:2: 'Django>=5\.2' is not an exact pin"):
        closure.direct([file])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_a_document_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
    local = [link.partition("#")[0] for link in links if "://" not in link and not link.startswith(("#", "mailto:"))]
    assert [link for link in local if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_of_a_document_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    named = {
        word
        for line in re.findall(r"`make ([a-z -]+)`|^make ([a-z -]+?)(?: #|$)", text, flags=re.MULTILINE)
        for word in "".join(line).split()
    }
    assert named <= targets
    commands = set(re.findall(r"manage\.py ([a-z_]+)", text))
    assert commands <= management_commands()
    taken_home = "stitchweb_"  # begins the names of packages that people install elsewhere
    for module in set(re.findall(r"python -m ([a-z_]+(?:\.[a-z_]+)*)", text)):
        if module.startswith(taken_home):
            continue
        found = importlib.util.find_spec(module)
        assert found, f"{page.name} names python -m {module}, which does not exist"
        if found.submodule_search_locations:
            assert importlib.util.find_spec(f"{module}.__main__"), f"{module} cannot be run with python -m"


def management_commands() -> set[str]:
    from django.core.management import get_commands

    return set(get_commands()) | {"help"}


def test_every_make_target_for_people_is_explained() -> None:
    listed = run("make", "help").stdout
    for target in ("run", "test", "test-slow", "test-gpu", "lint", "bench", "screens", "clean"):
        assert re.search(rf"^{target}\s+\S", listed, flags=re.MULTILINE), f"make help does not explain {target}"


def checkout(target: Path) -> Path:
    """The files that set-up reads, in a folder of their own."""
    (target / "tools").mkdir(parents=True)
    for file in ("Makefile", "requirements.txt", "requirements-dev.txt", "constraints.txt", "tools/venv.sh"):
        (target / file).write_bytes((ROOT / file).read_bytes())
    return target


def test_set_up_is_done_once_for_each_set_of_pins(tmp_path: Path) -> None:
    tree = checkout(tmp_path / "tree")

    def planned() -> str:
        return subprocess.run(["make", "-n", "test"], cwd=tree, capture_output=True, text=True, timeout=60, check=True).stdout

    stamp = re.search(r"venv\.sh (\S+) requirements-dev\.txt", planned())
    assert stamp, "a fresh checkout sets up"
    (tree / stamp[1]).parent.mkdir()
    (tree / stamp[1]).touch()
    assert "venv.sh" not in planned()
    with (tree / "requirements.txt").open("a") as file:
        file.write("attrs==26.1.0\n")
    assert "venv.sh" in planned()


def test_an_old_python_is_refused_with_a_sentence(tmp_path: Path) -> None:
    old = tmp_path / "python3"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "Python 3.9.2" && exit 0\nexit 1\n')
    old.chmod(0o755)
    tree = checkout(tmp_path / "tree")
    answer = subprocess.run(
        ["sh", "tools/venv.sh", ".venv/.run-0", "requirements.txt"],
        cwd=tree,
        env={"PATH": "/usr/bin:/bin", "PYTHON": str(old)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert answer.returncode == 1
    assert "needs Python 3.11, 3.12 or 3.13, found: Python 3.9.2" in answer.stderr
    assert not (tree / ".venv").exists()


def test_every_folder_of_code_says_what_lives_there() -> None:
    silent = []
    for package in ("stitchweb", "agents", "gpu_runner"):
        for init in (ROOT / package).rglob("__init__.py"):
            if init.parent.name in ("migrations", "management", "commands", "templatetags"):
                continue
            if not init.read_text(encoding="utf-8").lstrip().startswith('"""'):
                silent.append(str(init.relative_to(ROOT)))
    assert silent == []
