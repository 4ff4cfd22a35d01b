"""Writes constraints.txt: the exact version of every package that the pins pull in, as installed in this environment.

Usage: python tools/lock.py [--check]. With --check nothing is written; exit status 1 when an installed version differs.
"""

from __future__ import annotations

import sys

import closure

TARGET = closure.CONSTRAINTS
HEAD = """\
# The exact versions of what the pins pull in. Written by `make lock`; pip reads it beside the requirements files.
# What another platform needs on top (a CUDA build of torch brings NVIDIA's libraries) is pinned by the packages themselves.
"""


def text() -> str:
    """The file's content for this environment. Direct pins stand in the requirements files and are left out."""
    pins = closure.direct()
    lines = [f"{package.name}=={package.version}\n" for package in closure.installed() if package.name not in pins]
    return HEAD + "".join(lines)


def main(arguments: list[str]) -> int:
    wanted = text()
    if "--check" not in arguments:
        TARGET.write_text(wanted, encoding="utf-8")
        return 0
    here = set(TARGET.read_text(encoding="utf-8").splitlines())
    missing = [line for line in wanted.splitlines() if line not in here]
    for line in missing:
        print(f"{TARGET.name} does not hold {line}; run `make lock`", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
