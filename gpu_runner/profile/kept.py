"""Profiles of references that outlive a task: a profile costs seconds and says the same while program, device and versions are
the same. Kept as baselines are, in files that no sandboxed process can reach."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from gpu_runner.config import config, private_folder
from gpu_runner.contracts import DeviceInfo, digest
from gpu_runner.hands import HandsError
from gpu_runner.profile import installed
from gpu_runner.profile.system import SCHEMA

KEPT = 200  # files; the longest unused go
FORM = 2  # of what is kept; raised when a summary is made in another way


def key(program: str, device: DeviceInfo) -> str:
    """What makes two profiles the same: `program` as `Session.key` says, where it ran, and with which tools."""
    where = ("name", "target", "cores", "torch", "driver", "sandbox")
    found = (installed.nsys(), installed.ncu()) if device.kind == "gpu" else ()
    return digest(
        {
            "program": program,
            "device": {name: getattr(device, name) for name in where},
            "threads": config().threads,
            "tools": [tool.path if tool else "" for tool in found],
            "form": [SCHEMA, FORM],
        }
    )


def load(name: str) -> dict[str, Any] | None:
    """What `save` kept under a key; None when there is nothing that can be used."""
    try:
        path = _folder() / f"{name}.json"
        summary = json.loads(path.read_bytes())
        os.utime(path)
    except (OSError, HandsError, ValueError):
        return None
    whole = isinstance(summary, dict) and summary.get("schema") == SCHEMA and "call_ns" in summary.get("target", ())
    return summary if whole else None


def save(name: str, summary: dict[str, Any]) -> None:
    """Keep it. Where the folder cannot be written to, the next run measures again."""
    with contextlib.suppress(OSError, HandsError):
        folder = _folder()
        scratch = folder / f"{name}.{os.getpid()}"
        scratch.write_text(json.dumps(summary))
        scratch.replace(folder / f"{name}.json")
        for stale in sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime, reverse=True)[KEPT:]:
            stale.unlink(missing_ok=True)


def _folder() -> Path:
    return private_folder(config().cache_dir / "profiles")
