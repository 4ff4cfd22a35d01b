"""Which profilers this machine has, and the folders that a sandbox must show for them to run."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

_NSYS = (
    "/usr/local/cuda/bin/nsys", "/opt/nvidia/nsight-systems*/*/bin/nsys", "/opt/nvidia/nsight-systems*/*/target-linux-*/nsys",
    # Nsight Compute brings a copy for itself.
    "/opt/nvidia/nsight-compute/*/host/target-linux-*/nsys", "/usr/local/cuda*/nsight-compute-*/host/target-linux-*/nsys",
)  # fmt: skip
_NCU = (
    "/opt/nvidia/nsight-compute/*/ncu", "/usr/local/cuda*/nsight-compute-*/ncu", "/usr/local/cuda/bin/ncu",
)  # fmt: skip
_ROOTS = ("nsight-compute", "nsight-systems")
_VENDOR = Path("/opt/nvidia")


@dataclass(frozen=True)
class Installed:
    """A tool's path and the folders outside of the system's that it needs."""

    path: str
    folders: tuple[Path, ...] = ()


@lru_cache(maxsize=8)
def nsys(search: str | None = None) -> Installed | None:
    """Nsight Systems, None where it is not installed. `search`: the folders that go first, those of PATH by default."""
    return _found("nsys", search, _NSYS)


@lru_cache(maxsize=8)
def ncu(search: str | None = None) -> Installed | None:
    """Nsight Compute, None where it is not installed."""
    return _found("ncu", search, _NCU)


def _found(name: str, search: str | None, places: tuple[str, ...]) -> Installed | None:
    on_path = shutil.which(name, path=search)
    newest = [sorted(Path("/").glob(place.lstrip("/")), reverse=True) for place in places]
    for path in (*([Path(on_path)] if on_path else []), *(path for found in newest for path in found)):
        if os.access(path, os.X_OK) and path.is_file():
            return Installed(str(path), _folders(path))
    return None


def _folders(path: Path) -> tuple[Path, ...]:
    """What is not below /usr: the installation itself, and the vendor's folder, which a script in /usr leads to."""
    real = path.resolve()
    root = next((above for above in real.parents if any(above.name.startswith(word) for word in _ROOTS)), real.parent)
    wanted = (root, *(_VENDOR / word for word in _ROOTS))
    return tuple(dict.fromkeys(folder for folder in wanted if folder.is_dir() and not folder.is_relative_to("/usr")))
