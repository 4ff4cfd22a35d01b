"""Measurements that outlive a task, one file each, where no sandboxed process can reach them."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from gpu_runner.config import config, private_folder
from gpu_runner.hands import HandsError

KEPT = 200  # files; the longest unused go


@dataclass(frozen=True)
class Shelf:
    """The files of one kind, by digest. Where its folder cannot be read or written, it is empty and stays so."""

    kind: str

    def load(self, name: str) -> bytes | None:
        """What `save` kept; None where there is nothing."""
        try:
            path = self._folder() / f"{name}.json"
            content = path.read_bytes()
            os.utime(path)
        except (OSError, HandsError):
            return None
        return content

    def save(self, name: str, content: bytes) -> None:
        """Keep it, as a whole or not at all."""
        with contextlib.suppress(OSError, HandsError):
            folder = self._folder()
            scratch = folder / f"{name}.{os.getpid()}"
            scratch.write_bytes(content)
            scratch.replace(folder / f"{name}.json")
            for stale in sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime, reverse=True)[KEPT:]:
                stale.unlink(missing_ok=True)

    def _folder(self) -> Path:
        return private_folder(config().cache_dir / self.kind)
