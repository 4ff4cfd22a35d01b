"""The handbook's pages: their heads, their lengths, and that each kernel compiles for the architecture that its page names."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from agents.handbook import Page, pages
from agents.handbook.page import FOLDER, read
from tests.agents.handbook_build import COMMANDS, built, compiler, of

HEAD = "title: T\ntopics: a\nops: softmax\nbottlenecks: memory-bound\narchitectures: cpu"
KERNEL = "```cpp\nint f();\n```\n"


def test_there_are_at_least_forty_pages_for_gpus_and_processors() -> None:
    assert len(pages()) >= 40
    assert all(of(architecture) for architecture in COMMANDS)


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_a_page_is_short_and_its_kernel_is_called_like_it(page: Page) -> None:
    lines = (FOLDER / f"{page.name}.md").read_text(encoding="utf-8").splitlines()
    assert 30 <= len(lines) <= 80
    assert max(map(len, lines)) <= 128
    assert re.search(rf'^extern "C" (int|void) {page.name.replace("-", "_")}\(', page.kernel, re.MULTILINE)
    assert ("cuda" in page.text.split("```")[1].split("\n")[0]) is page.architectures[0].startswith("sm_")


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_what_a_page_names_in_quotes_is_a_page_where_it_looks_like_one(page: Page) -> None:
    """`bank-conflicts` and the like; options, metrics and functions of others have no two small words joined by a dash."""
    named = set(re.findall(r"`([a-z0-9]+(?:-[a-z0-9]+)+)`", page.prose))
    assert named <= {other.name for other in pages()}


@pytest.mark.parametrize("architecture", COMMANDS)
def test_every_kernel_compiles_without_a_spilled_register(architecture: str, tmp_path: Path) -> None:
    if compiler(architecture) is None:
        pytest.skip(f"{COMMANDS[architecture][0]} is not installed")
    cuda = architecture.startswith("sm_")
    _, said = built(tmp_path, architecture, *(["-Xptxas=-v"] if cuda else ["-Wall", "-Wextra", "-Wno-maybe-uninitialized"]))
    assert "warning" not in said, said
    assert set(re.findall(r"(\d+) bytes spill stores", said)) <= {"0"}, said


def test_a_kernel_that_does_not_compile_is_told_with_its_page(tmp_path: Path) -> None:
    from tests.agents.handbook_build import together

    broken = read("broken-page", f"---\n{HEAD}\n---\n\n```cpp\nint f() {{ return wrong; }}\n```\n")
    (tmp_path / "all.cpp").write_text(together([broken]))
    done = subprocess.run(["g++", "-c", "all.cpp"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert "broken-page:1" in done.stderr


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (KERNEL, "does not begin with a head"),
        (f"---\n{HEAD}\n", "does not begin with a head"),
        (f"---\n{HEAD}\n---\n\nprose\n", "has 0 fences"),
        (f"---\n{HEAD}\n---\n{KERNEL}{KERNEL}", "has 2 fences"),
        (f"---\n{HEAD.replace('softmax', 'softmux')}\n---\n{KERNEL}", "names softmux under ops"),
        (f"---\n{HEAD.replace('memory-bound', 'slow')}\n---\n{KERNEL}", "names slow under bottlenecks"),
        (f"---\n{HEAD.replace('cpu', 'sm_70')}\n---\n{KERNEL}", "names sm_70 under architectures"),
        (f"---\n{HEAD.replace('topics: a', 'topics:')}\n---\n{KERNEL}", "needs topics"),
        (f"---\n{HEAD}\nmore: b\n---\n{KERNEL}", "it needs title, topics"),
        (f"---\n{HEAD}\nno field\n---\n{KERNEL}", "is no field"),
    ],
)
def test_a_page_that_is_none_is_refused_with_its_name(text: str, why: str) -> None:
    with pytest.raises(ValueError, match="the page odd") as refused:
        read("odd", text)
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("architecture", "fits"),
    [
        ("cpu", {"cpu"}),
        ("avx512", {"cpu"}),
        ("sm_80", {"sm_80", "sm_86", "sm_90", "sm_100", "sm_120"}),
        ("sm_90", {"sm_90", "sm_100", "sm_120"}),
        ("sm_90a", {"sm_90"}),
    ],
)
def test_a_page_is_for_its_architecture_and_later_ones(architecture: str, fits: set[str]) -> None:
    page = read("one", f"---\n{HEAD.replace('cpu', architecture)}\n---\n{KERNEL}")
    targets = {"cpu", "sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"}
    assert {target for target in targets if page.fits(target)} == fits
