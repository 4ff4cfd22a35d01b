"""Reads profilers' reports: the one role that runs parsers of ours on a stranger's file, and none of the stranger's code."""

import importlib
import importlib.util
import os
import resource
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

_CHUNK = 8 << 20


def handle(kind: str, payload: dict, fds: list[int], emit: Callable[[dict], None]) -> dict:
    """`read`: {"package", "memory", "files", "role", "range_name", "warmup"} with a memory for each of `files` ({"suffix",
    "size"}): answers {"summary"}, or {"unreadable"} with a sentence for people.

    `package`: the folder of `gpu_runner`; `memory`: bytes of address space, beyond which a MemoryError is the answer.
    """
    if kind != "read":
        raise ValueError(f"a reader does not know how to {kind}")
    resource.setrlimit(resource.RLIMIT_AS, (payload["memory"],) * 2)
    _importable(payload["package"])
    limits = importlib.import_module("gpu_runner.profile.limits")
    reading = importlib.import_module("gpu_runner.profile.reading")
    paths = [_laid_out(file, fd) for file, fd in zip(payload["files"], fds, strict=True)]
    given = {name: payload[name] for name in ("role", "range_name", "warmup")}
    try:
        return {"summary": reading.read_profile(paths, **given)}
    except limits.UnreadableProfile as error:
        return {"unreadable": str(error)}


def _importable(folder: str) -> None:
    """Makes our package importable by its own folder: what lies beside it is not shown in here, and may not be listed."""
    spec = importlib.util.spec_from_file_location(
        "gpu_runner", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    package = importlib.util.module_from_spec(spec)
    sys.modules["gpu_runner"] = package
    spec.loader.exec_module(package)


def _laid_out(file: dict, fd: int) -> Path:
    """The report as a file, for SQLite opens no other."""
    handle, path = tempfile.mkstemp(suffix=file["suffix"])
    with open(handle, "wb") as copy:
        for start in range(0, file["size"], _CHUNK):
            copy.write(os.pread(fd, min(_CHUNK, file["size"] - start), start))
    os.close(fd)
    return Path(path)
