"""The kernels of the handbook as one source for each architecture: nvcc and g++ are slow to start, not to compile."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from agents.handbook import Page, pages

# The compiler of a page, by the architecture that it names first.
COMMANDS = {
    "cpu": ["g++", "-O3", "-march=x86-64-v3", "-std=c++17", "-fopenmp", "-fno-math-errno", "-fno-trapping-math", "-fPIC"],
    "avx512": ["g++", "-O3", "-march=x86-64-v4", "-std=c++17", "-fopenmp", "-fno-math-errno", "-fno-trapping-math", "-fPIC"],
    **{
        name: ["nvcc", "-O3", f"-arch={name}", "-std=c++17", "--threads=1", "-Xcompiler=-fPIC"]
        for name in ("sm_80", "sm_90", "sm_90a")
    },
}
_INCLUDE = re.compile(r"^#include <.*>\n", re.MULTILINE)


def compiler(architecture: str) -> str | None:
    """Where the compiler is, None where there is none."""
    return shutil.which(COMMANDS[architecture][0])


def of(architecture: str) -> list[Page]:
    return [page for page in pages() if page.architectures[0] == architecture]


def together(chosen: list[Page]) -> str:
    """Their kernels, each in a namespace of its own, so that none depends on another's names; messages name the page."""
    includes = dict.fromkeys(line for page in chosen for line in _INCLUDE.findall(page.kernel))
    bodies = [
        f'namespace page_{page.name.replace("-", "_")} {{\n#line 1 "{page.name}"\n{_INCLUDE.sub("", page.kernel)}}}\n'
        for page in chosen
    ]
    return "".join([*includes, *bodies])


def built(folder: Path, architecture: str, *flags: str) -> tuple[Path, str]:
    """The shared library of an architecture's pages, and what the compiler said. Fails with that where it does not compile."""
    command = COMMANDS[architecture]
    source = folder / ("pages.cpp" if command[0] == "g++" else "pages.cu")
    source.write_text(together(of(architecture)), encoding="utf-8")
    library = folder / f"lib{architecture}.so"
    done = subprocess.run(
        [*command, *flags, "-shared", "-o", library, source], cwd=folder, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    return library, done.stderr
