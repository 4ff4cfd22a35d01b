"""Many programs at once: a zip or a folder of files, read without trusting a name or a size in it."""

from __future__ import annotations

import re
import stat
import sys
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import PurePosixPath
from typing import IO

from django.conf import settings

from stitchweb.programs.uploads import Problem, check_source, decode, imports

MAX_PROGRAMS = 500
MAX_ENTRIES = 5000
MAX_TOTAL = 64 * 1024 * 1024
_REPACK = "Pack the folder again as .zip."
_IN_PARTS = "Upload it in parts."
_LEVEL = re.compile(r"(?:^|/)level[_-]?(\d{1,2})/", re.IGNORECASE)
# What archives carry along and nobody means.
_NOISE = re.compile(r"(?:^|/)(?:__MACOSX|__pycache__|\.[^/]+|__init__\.py|setup\.py|conftest\.py|test_[^/]*\.py)(?:/|$)")


@dataclass(frozen=True)
class Item:
    """One file of a batch. `problems` says why it is left out, in words for the page."""

    path: str
    text: str
    level: int | None = None
    problems: list[Problem] = field(default_factory=list)


@dataclass(frozen=True)
class Batch:
    """What a zip or folder holds. `problems` are of the whole; a batch with any of them has no items."""

    name: str = ""
    items: list[Item] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def read_zip(file: IO[bytes], filename: str) -> Batch:
    """The programs in an archive. Sizes count while unpacking, so a header that lies gains nothing. Nothing is written."""
    name = PurePosixPath(filename).name.removesuffix(".zip")
    try:
        with zipfile.ZipFile(file) as archive:
            infos = [info for info in archive.infolist() if not info.is_dir()]
            if len(infos) > MAX_ENTRIES:
                return _refuse(
                    name, "too-many", f"{filename} holds {len(infos)} files; at most {MAX_ENTRIES} are read.", _IN_PARTS
                )
            files: list[tuple[str, bytes]] = []
            beside: list[str] = []
            total = 0
            for info in infos:
                path = info.filename.replace("\\", "/")
                if _unsafe(path):
                    return _refuse(
                        name, "path", f"{filename} holds {info.filename[:200]!r}, which is no plain path inside it.", _REPACK
                    )
                if stat.S_ISLNK(info.external_attr >> 16):
                    return _refuse(
                        name,
                        "link",
                        f"{filename} holds the link {path!r}; only plain files are read.",
                        "Put the file itself into the archive.",
                    )
                if not path.endswith(".py"):
                    continue
                if _NOISE.search(path):
                    beside.append(path)
                    continue
                if info.flag_bits & 0x1:
                    return _refuse(
                        name, "encrypted", f"{path} in {filename} is encrypted.", "Upload an archive without a password."
                    )
                with archive.open(info) as member:
                    data = member.read(settings.MAX_UPLOAD_KB * 1024 + 1)
                total += len(data)
                if total > MAX_TOTAL:
                    return _refuse(name, "bomb", f"{filename} unpacks to more than {MAX_TOTAL // 2**20} MB.", _IN_PARTS)
                files.append((path, data))
    except (
        zipfile.BadZipFile,
        zipfile.LargeZipFile,
        EOFError,
        NotImplementedError,
        RuntimeError,
        OSError,
        ValueError,
    ) as error:
        return _refuse(name, "not-zip", f"{filename} cannot be read as a zip archive: {error}.", _REPACK)
    except Exception as error:  # zlib, lzma and bz2 raise errors of their own for damaged data
        return _refuse(name, "damaged", f"{filename} is damaged: {error}.", _REPACK)
    return read_files(files, name, beside)


def read_files(files: Iterable[tuple[str, bytes]], name: str = "", beside: Iterable[str] = ()) -> Batch:
    """The programs among these files, by path; `levelN/` in a path sets the level. A folder's own name becomes the batch's.

    `beside`: paths of further files that are no programs, but could be imported by one.
    """
    found = sorted((path.replace("\\", "/").lstrip("/"), data) for path, data in files)
    if bad := next((path for path, _ in found if _unsafe(path)), ""):
        return _refuse(name, "path", f"{bad[:200]!r} is no plain path inside the folder.", "Rename it, or leave it out.")
    local = _local_names([*beside, *(path for path, _ in found if path.endswith(".py"))])
    found = [(path, data) for path, data in found if path.endswith(".py") and not _NOISE.search(path)]
    if not found:
        return _refuse(name, "nothing", "There is no Python file in it.", "A batch is a folder of .py files, one program each.")
    if len(found) > MAX_PROGRAMS:
        return _refuse(
            name, "too-many", f"There are {len(found)} programs; at most {MAX_PROGRAMS} are taken at once.", _IN_PARTS
        )
    if twice := next((a for (a, _), (b, _) in pairwise(found) if a == b), ""):
        return _refuse(name, "twice", f"{twice} is in it more than once, and only one can be meant.", "Keep one of them.")
    roots = {path.split("/")[0] for path, _ in found}
    if len(roots) == 1 and all("/" in path for path, _ in found) and not _LEVEL.match(found[0][0]):
        root = roots.pop()
        found = [(path.removeprefix(f"{root}/"), data) for path, data in found]
        name = name or root
    items = []
    for path, data in found:
        text, problems = decode(data, path)
        level = _LEVEL.search(path)
        problems = problems or _beside(text, path, local) or check_source(text, path)
        items.append(Item(path, text, int(level.group(1)) if level else None, problems))
    return Batch(name, items)


def _local_names(paths: Iterable[str]) -> set[str]:
    """What the files of a batch can be imported as: their own names, and those of the folders around them."""
    names = {part for path in paths for part in PurePosixPath(path).with_suffix("").parts}
    return names - {"__init__", "torch"} - sys.stdlib_module_names


def _beside(text: str, path: str, local: set[str]) -> list[Problem]:
    """A program is one file: what it imports from files beside it would be missed when it runs."""
    for package, line in imports(text):
        if package.startswith(".") or package in local:
            what = f"{path} imports {package}, a file beside it, but a program is one file."
            return [Problem("other-file", what, f"Put what it needs from {package} into {path}.", line, path)]
    return []


def _unsafe(path: str) -> bool:
    parts = PurePosixPath(path).parts
    # What no screen shows can make one name look like another.
    leads_out = path.startswith("/") or ".." in parts or bool(re.match(r"^[A-Za-z]:", path))
    return leads_out or not path.isprintable() or len(path) > 300


def _refuse(name: str, code: str, sentence: str, way_out: str) -> Batch:
    return Batch(name, [], [Problem(code, sentence, way_out)])
