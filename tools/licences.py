"""Writes docs/licences.md, and checks it and docs/dependencies.md against the requirements files and the packages' metadata.

Usage: python tools/licences.py [--check]. With --check nothing is written; exit status 1, a sentence for each difference.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import closure
from packaging.utils import canonicalize_name

LICENCES = closure.ROOT / "docs" / "licences.md"
DEPENDENCIES = closure.ROOT / "docs" / "dependencies.md"
HEAD = """\
# Licences

StitchWeb itself is under the Apache License 2.0 (`LICENSE`). This page lists every Python package that the pins bring
in, with the licence that the package states in its own metadata. It is written by `make licences`; do not edit it.
A package named twice in a licence field ("and/or") states several without saying how they combine.
A CUDA build of torch brings NVIDIA's libraries on top, under NVIDIA's own terms.
In the repository itself lies speedscope 1.25.0 (`static/vendor/speedscope`, MIT; its font Source Code Pro under OFL-1.1).

"""


def page() -> str:
    """The whole of docs/licences.md: first what the service installs, then what only tests and linters need."""
    service = closure.installed(closure.REQUIREMENTS[:1])
    tools = [package for package in closure.installed() if package not in service]
    return HEAD + _section("The service", service) + "\n" + _section("Tests and linters, never shipped", tools)


def _section(title: str, packages: list[closure.Package]) -> str:
    counts = Counter(package.licence for package in packages).most_common()
    lines = [
        f"## {title}",
        "",
        f"{len(packages)} packages: {', '.join(f'{licence} ({count})' for licence, count in counts)}.",
        "",
        "| package | version | licence |",
        "| --- | --- | --- |",
        *(f"| {package.name} | {package.version} | {package.licence} |" for package in packages),
    ]
    return "\n".join(lines) + "\n"


def rows_of(path: Path, columns: int) -> dict[str, list[str]]:
    """Name to cells of every row of the page's tables that have that many columns."""
    rows: dict[str, list[str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and len(cells) == columns and cells[0] not in ("package", "---"):
            rows[canonicalize_name(cells[0])] = cells
    return rows


def differences() -> list[str]:
    """A sentence for everything on the two pages that is not so. Empty when all is well.

    Another Python or another build of torch installs a few packages more or fewer, so what is compared of the licence
    page is its names against the pins, and its licences against what is installed here.
    """
    found: list[str] = []
    stated = {package.name: package.licence for package in closure.installed()}
    pins, rows = closure.direct(), rows_of(DEPENDENCIES, columns=5)
    for name in sorted(pins.keys() - rows.keys()):
        found.append(f"docs/dependencies.md has no row for {name}=={pins[name]}: add version, release, licence and the reason.")
    for name in sorted(rows.keys() - pins.keys()):
        found.append(f"docs/dependencies.md describes {name}, which no requirements file names: remove the row.")
    for name in sorted(pins.keys() & rows.keys()):
        _, version, _, licence, _ = rows[name]
        if version != pins[name]:
            found.append(f"docs/dependencies.md says {name} {version}, the requirements say {pins[name]}.")
        if licence != stated[name]:
            found.append(f"docs/dependencies.md says {name} is under {licence}, the package says {stated[name]}.")

    listed = {name: (version, licence) for name, (_, version, licence) in rows_of(LICENCES, columns=3).items()}
    every_pin = pins | closure.direct([closure.CONSTRAINTS])
    for name in sorted(every_pin.keys() ^ listed.keys()):
        found.append(f"docs/licences.md and the pins do not both name {name}: run `make lock licences`.")
    for name in sorted(every_pin.keys() & listed.keys()):
        version, licence = listed[name]
        if version != every_pin[name] or licence != stated.get(name, licence):
            found.append(f"docs/licences.md says {name} {version} under {licence}, which is not so: run `make licences`.")
    return found


def main(arguments: list[str]) -> int:
    if "--check" not in arguments:
        LICENCES.write_text(page(), encoding="utf-8")
        return 0
    found = differences()
    for sentence in found:
        print(sentence, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
