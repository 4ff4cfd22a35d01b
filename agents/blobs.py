"""Where bytes lie by content: in memory for tests and short lives, in a folder for the headless commands."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from gpu_runner.contracts import BlobRef, digest


class MemoryBlobs:
    """A `BlobStore` that forgets with its process."""

    def __init__(self) -> None:
        self._bytes: dict[str, bytes] = {}

    def put(self, data: bytes) -> BlobRef:
        sha256 = digest(data)
        self._bytes[sha256] = data
        return BlobRef(sha256=sha256, size=len(data))

    def get(self, ref: BlobRef) -> bytes:
        return self._bytes[ref.sha256]


class FolderBlobs:
    """A `BlobStore` in a folder, `ab/abcdef…` per blob. A blob appears whole or not at all, and is never rewritten."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, data: bytes) -> BlobRef:
        ref = BlobRef(sha256=digest(data), size=len(data))
        path = self._path(ref)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
                file.write(data)
            os.replace(file.name, path)
        return ref

    def get(self, ref: BlobRef) -> bytes:
        try:
            return self._path(ref).read_bytes()
        except FileNotFoundError:
            raise KeyError(ref.sha256) from None

    def _path(self, ref: BlobRef) -> Path:
        if len(ref.sha256) != 64 or not set(ref.sha256) <= set("0123456789abcdef"):
            raise KeyError(ref.sha256)
        return self.root / ref.sha256[:2] / ref.sha256
