"""Built libraries on disk, found by what they were made from. Safe for several processes at once.

An entry is a folder `ab/abcdef…` with `libkernels.so` and `entry.json`; it appears whole by one rename and is never changed.
What was used longest ago goes first when the folder grows too large.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from gpu_runner.config import config, private_folder
from gpu_runner.contracts import digest
from gpu_runner.contracts.candidate import LIBRARY_FILE

_KEY = re.compile(r"^[0-9a-f]{64}$")
_ENTRY = "entry.json"
_STALE_S = 3600.0


@dataclass(frozen=True)
class Entry:
    """What is remembered of a build. `seconds` it took then, `size` in bytes."""

    sha256: str
    size: int
    seconds: float
    command: tuple[str, ...]
    log: str
    kernels: tuple[str, ...] = ()  # of CUDA


class BuildCache:
    """`limit` in bytes. The folder is made private to its user: what lies in it is loaded as code."""

    def __init__(self, folder: Path, limit: int) -> None:
        private_folder(folder)
        self._folder = private_folder(folder / "builds")
        self._limit = limit

    def path(self, key: str) -> Path | None:
        """The library of `key`, or None when it is not there (any more). Its bytes may only be trusted through `read`."""
        if not _KEY.match(key):
            return None
        library = self._place(key) / LIBRARY_FILE
        return library if library.is_file() else None

    def read(self, key: str) -> tuple[Entry, bytes] | None:
        """The entry and its library, checked against its digest; None when missing or damaged, which removes it."""
        if (library := self.path(key)) is None:
            return None
        try:
            raw = json.loads((library.parent / _ENTRY).read_text())
            entry = Entry(**{**raw, "command": tuple(raw["command"]), "kernels": tuple(raw["kernels"])})
            data = library.read_bytes()
            if digest(data) != entry.sha256:
                raise ValueError("damaged")
            os.utime(library.parent)
        except (OSError, ValueError, TypeError, KeyError):
            shutil.rmtree(library.parent, ignore_errors=True)
            return None
        return entry, data

    def store(
        self, key: str, library: bytes, seconds: float, command: tuple[str, ...], log: str, kernels: tuple[str, ...] = ()
    ) -> Entry:
        """Keeps a library. Where another process was faster, its entry stays."""
        entry = Entry(digest(library), len(library), seconds, command, log, kernels)
        temporary = Path(tempfile.mkdtemp(prefix="new-", dir=self._folder))
        try:
            (temporary / LIBRARY_FILE).write_bytes(library)
            (temporary / _ENTRY).write_text(json.dumps(asdict(entry)))
            place = self._place(key)
            place.parent.mkdir(mode=0o700, exist_ok=True)
            with contextlib.suppress(OSError):  # not empty: somebody else's equal entry
                temporary.rename(place)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        self._shrink()
        return entry

    def _place(self, key: str) -> Path:
        return self._folder / key[:2] / key

    def _entries(self) -> Iterator[tuple[float, int, Path]]:
        for library in self._folder.glob(f"??/*/{LIBRARY_FILE}"):
            with contextlib.suppress(OSError):
                yield library.parent.stat().st_mtime, library.stat().st_size, library.parent

    def _shrink(self) -> None:
        entries = sorted(self._entries())
        total = sum(size for _, size, _ in entries)
        for _, size, folder in entries[:-1]:
            if total <= self._limit:
                break
            shutil.rmtree(folder, ignore_errors=True)
            total -= size
        newest = entries[-1][0] if entries else 0.0
        for left in self._folder.glob("new-*"):  # by a process that was killed
            with contextlib.suppress(OSError):
                if left.stat().st_mtime < newest - _STALE_S:
                    shutil.rmtree(left, ignore_errors=True)


def build_cache() -> BuildCache:
    """The cache of this runner's settings."""
    settings = config()
    return BuildCache(settings.cache_dir, settings.cache_mib << 20)
