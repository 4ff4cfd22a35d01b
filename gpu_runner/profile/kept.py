"""Profiles of references that outlive a task: a profile costs seconds and says the same while program, device and versions are
the same."""

from __future__ import annotations

import json
from typing import Any

from gpu_runner.config import config
from gpu_runner.contracts import DeviceInfo, digest
from gpu_runner.profile import installed
from gpu_runner.profile.system import SCHEMA
from gpu_runner.shelf import Shelf

_SHELF = Shelf("profiles")
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
        summary = json.loads(_SHELF.load(name) or b"null")
    except ValueError:
        return None
    whole = isinstance(summary, dict) and summary.get("schema") == SCHEMA and "call_ns" in summary.get("target", ())
    return summary if whole else None


def save(name: str, summary: dict[str, Any]) -> None:
    """Keep it. Where that fails, the next run measures again."""
    _SHELF.save(name, json.dumps(summary).encode())
