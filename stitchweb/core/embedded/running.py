"""Whether the site of a data folder runs already, and where."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stitchweb.core.embedded import broker


def _note(data_dir: Path) -> Path:
    return data_dir / "address"


@contextmanager
def noted(data_dir: Path, address: str) -> Iterator[None]:
    """While the block runs, other commands learn from the data folder where its site is."""
    _note(data_dir).write_text(address)
    try:
        yield
    finally:
        _note(data_dir).unlink(missing_ok=True)


def address(data_dir: Path, socket_file: Path) -> str:
    """Where the site of this data folder is reached; empty while it does not run. A killed site leaves its note behind, so
    only its broker's answer counts."""
    with contextlib.suppress(OSError):
        if broker.answers(socket_file):
            return _note(data_dir).read_text().strip()
    return ""
