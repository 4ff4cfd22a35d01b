"""The take-home as a wheel: pure Python with the sources in it, compiled where it is used.

The package holds what the zip of `agents.bundle` holds and an `__init__.py` that builds the kernels when `ModelNew` is first
asked for. What is given to strangers says nothing of the run it came from.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from agents.bundle import json_text, zipped
from agents.takehome import package_script
from gpu_runner.contracts import digest

# What `verify.py` needs of result.json; everything else in it tells of the run or of what was measured there.
_NEEDED = ("schema", "entry", "target", "protocol_settings", "mode", "precision", "flags", "hashes")
_SPDX = re.compile(r"[A-Za-z0-9.+-]+(?: (?:AND|OR|WITH) [A-Za-z0-9.+-]+)*")


class NoWheel(Exception):
    """No wheel can be made of the program. The message says why and what to do instead."""


@dataclass(frozen=True)
class Given:
    """How the wheel is called. `licence`: an SPDX expression, or empty where nobody may pass it on."""

    name: str
    version: int
    licence: str = ""

    @property
    def package(self) -> str:
        """The name to import: `stitchweb_` and the name in lower case, with underscores."""
        words = re.sub(r"[^a-z0-9]+", "_", self.name.lower()).strip("_")
        return f"stitchweb_{words or 'program'}"[:80].rstrip("_")

    @property
    def filename(self) -> str:
        return f"{self.package}-{self.version}-py3-none-any.whl"


def public(members: Mapping[str, str], given: Given, numbers: Mapping[str, Any] | None, said: str = "") -> dict[str, str]:
    """The members of a bundle without what tells of its run; `numbers`: what was measured and may be told, with `said` for the
    reader."""
    facts: dict[str, Any] = json.loads(members["result.json"])
    kept = {key: facts[key] for key in _NEEDED if key in facts} | {"name": given.name}
    if numbers is not None:
        kept["numbers"] = dict(numbers)
    text = f"# {given.name}, version {given.version}\n\n{said + chr(10) * 2 if said else ''}{_USE}"
    return {**members, "result.json": json_text(kept), "README.md": text}


_USE = (
    "`reference.py` is the module that it was made from and verified against; `verify.py` checks and times it again on your "
    "machine.\n"
)


def wheel(members: Mapping[str, str], given: Given) -> bytes:
    """The wheel of a bundle's members, the same bytes for the same members. NoWheel where it has no Python of its own."""
    if "model_new.py" not in members:
        raise NoWheel(
            "This candidate has no Python of its own: its kernels are called by the runner, as entry.json says. Take the zip, "
            "and call them from your program."
        )
    facts: dict[str, Any] = json.loads(members["result.json"])
    needs, external = needs_of(members, str(facts.get("target") or ""))
    package = given.package
    files = {f"{package}/{path}": text for path, text in members.items()}
    said = {
        "TITLE": f"{given.name}, version {given.version}: an optimized PyTorch module.".replace('"', "'").replace("\\", "/"),
        "PACKAGE": package,
        "NEEDS": needs,
        "VERSION": str(given.version),
        "SHA256": digest({path: text for path, text in members.items() if path not in ("README.md", "result.json")}),
    }
    script = package_script()
    for word, text in said.items():
        script = script.replace(f"@{word}@", text)
    files[f"{package}/__init__.py"] = script
    info = f"{package}-{given.version}.dist-info"
    files[f"{info}/METADATA"] = _metadata(members, given, needs, external)
    files[f"{info}/WHEEL"] = "Wheel-Version: 1.0\nGenerator: stitchweb\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    rows = [f"{path},sha256={_hash(text)},{len(text.encode())}" for path, text in sorted(files.items())]
    files[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,"]) + "\n"
    return zipped(files)


def _hash(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def needs_of(paths: Iterable[str], target: str) -> tuple[str, str]:
    """(what a program with these files needs in words, and as a Requires-External field)."""
    sources = [path for path in paths if path.startswith("kernels/")]
    if any(path.endswith(".cu") for path in sources):
        return f"PyTorch with CUDA, nvcc, a C++ compiler and a GPU of architecture {target}", "nvcc"
    if any(path.endswith(".cpp") for path in sources):
        return "PyTorch and a C++ compiler (c++, g++ or clang++)", "g++"
    return "PyTorch", ""


def _metadata(members: Mapping[str, str], given: Given, needs: str, external: str) -> str:
    licence = given.licence if _SPDX.fullmatch(given.licence) else "LicenseRef-Proprietary"
    head = [
        "Metadata-Version: 2.4",
        f"Name: {given.package.replace('_', '-')}",
        f"Version: {given.version}",
        f"Summary: {' '.join(given.name.split())[:200]}, optimized by StitchWeb",
        f"License-Expression: {licence}",
        "Requires-Python: >=3.11",
        "Requires-Dist: torch",
        *([f"Requires-External: {external}"] if external else []),
        "Description-Content-Type: text/markdown",
    ]
    use = f"## Use it\n\n    from {given.package} import ModelNew\n\nIt needs {needs}.\n"
    return "\n".join(head) + f"\n\n{members['README.md']}\n{use}"
