"""Walks the installed packages that the requirements files pull in. Reads package metadata only; no network."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = (ROOT / "requirements.txt", ROOT / "requirements-dev.txt")
CONSTRAINTS = ROOT / "constraints.txt"

# The names that licence classifiers and free-text fields use for what SPDX calls otherwise.
_SPDX = {
    "apache software license": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache 2.0": "Apache-2.0",
    "apache license, version 2.0": "Apache-2.0",
    "apache": "Apache-2.0",
    "pytest-django is released under the bsd (3-clause) license": "BSD-3-Clause",
    "bsd 2-clause license": "BSD-2-Clause",
    "bsd license": "BSD",
    "bsd": "BSD",
    "new bsd": "BSD-3-Clause",
    "isc license (iscl)": "ISC",
    "isc": "ISC",
    "mit license": "MIT",
    "the mit license (mit)": "MIT",
    "mit": "MIT",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "python software foundation license": "PSF-2.0",
    "zope public license": "ZPL-2.1",
    "gnu library or lesser general public license (lgpl)": "LGPL",
    "lgpl-2.0-or-later": "LGPL-2.0-or-later",
    "gnu lesser general public license v3 (lgplv3)": "LGPL-3.0",
}


@dataclass(frozen=True, order=True)
class Package:
    """One installed package. `version` without a local part (`2.13.0+cpu` is `2.13.0`), as the requirements name it."""

    name: str
    version: str
    licence: str


def direct(files: Iterable[Path] = REQUIREMENTS) -> dict[str, str]:
    """Name to exact version of every line. Raises ValueError at a line that is not an exact pin."""
    pins: dict[str, str] = {}
    for file in files:
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
            line = line.partition("#")[0].strip()
            if not line or line.startswith("-r "):
                continue
            requirement = Requirement(line)
            match = re.fullmatch(r"==([^*,]+)", str(requirement.specifier))
            if not match:
                raise ValueError(f"{file.name}:{number}: {line!r} is not an exact pin; write name==version")
            pins[canonicalize_name(requirement.name)] = match[1]
    return pins


def installed(files: Iterable[Path] = REQUIREMENTS) -> list[Package]:
    """Every package that the files pull in here, direct and indirect, by name."""
    seen: dict[tuple[str, str], None] = {}
    packages: dict[str, Package] = {}
    queue = [requirement for file in files for requirement in _lines(file)]
    while queue:
        requirement = queue.pop()
        for extra in ("", *sorted(requirement.extras)):
            key = (canonicalize_name(requirement.name), extra)
            if key in seen:
                continue
            seen[key] = None
            found = distribution(requirement.name)
            packages[key[0]] = Package(key[0], found.version.partition("+")[0], licence_of(found))
            queue.extend(_needs(found, extra))
    return sorted(packages.values())


def licence_of(found: Distribution) -> str:
    """The licence a package states of itself, as an SPDX expression where it can be told; "not stated" otherwise."""
    meta = found.metadata
    expression = meta.get("License-Expression")
    if expression:
        return str(expression)
    stated = [value.rpartition(" :: ")[2] for value in meta.get_all("Classifier") or () if value.startswith("License ::")]
    names = [name for name in stated if name != "OSI Approved"]
    # A vague classifier ("BSD License") is worth less than a short licence field that names the variant.
    field = (meta.get("License") or "").strip()
    short = field.partition("\n")[0].strip()  # some paste the whole text, whose first line is its name
    if len(short) > 60 or short == "Dual License":
        short = ""
    named = [_SPDX.get(name.lower(), name) for name in names]
    if short and (not named or set(named) <= {"BSD", "LGPL"}):
        named = [_SPDX.get(short.lower(), short)]
    # Two classifiers mean a choice or a mixture; the package does not say which.
    return " and/or ".join(dict.fromkeys(named)) or "not stated"


def _lines(file: Path) -> Iterator[Requirement]:
    for line in file.read_text(encoding="utf-8").splitlines():
        line = line.partition("#")[0].strip()
        if line and not line.startswith("-r "):
            yield Requirement(line)


def _needs(found: Distribution, extra: str) -> Iterator[Requirement]:
    """What a package needs here, with that extra. Optional parts that were not asked for are left out."""
    for text in found.requires or ():
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is not None and not marker.evaluate({"extra": extra}):
            continue
        try:
            distribution(requirement.name)
        except PackageNotFoundError:
            raise LookupError(f"{found.name} needs {requirement.name}, which is not installed; run `make setup`") from None
        yield requirement
