"""Baselines that outlive a task: eager and the modes of torch.compile, as they were once measured side by side.

Compiling takes longer than all else of a verification, and its arms do not change while reference, device and versions are the
same. Whether the machine still is what it was, eager tells: it is measured with every candidate (`speed.known_holds`).
Kept in files that no sandboxed process can reach.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from gpu_runner.config import config, private_folder
from gpu_runner.contracts import DeviceInfo, Protocol, digest
from gpu_runner.hands import HandsError
from gpu_runner.speed import EAGER, Known

KEPT = 200  # files; the longest unused go
_ADAPTER: TypeAdapter[Known] = TypeAdapter(Known)


def key(program: str, protocol: Protocol, device: DeviceInfo) -> str:
    """What makes two measurements of baselines the same: `program` as `Session.key` says, how it is measured, and on what."""
    measured = ("arms", "rounds", "samples_per_round", "half_width", "warmup_s", "arm_budget_s")
    where = ("name", "target", "cores", "torch", "driver", "compiler", "sandbox")
    return digest(
        {
            "program": program,
            "protocol": {name: getattr(protocol, name) for name in measured},
            "device": {name: getattr(device, name) for name in where},
            "threads": config().threads,
        }
    )


def load(name: str) -> Known | None:
    """What `save` kept under a key; None when there is nothing that can be used."""
    try:
        path = _folder() / f"{name}.json"
        known = _ADAPTER.validate_json(path.read_bytes())
        os.utime(path)
    except (OSError, HandsError, ValidationError):
        return None
    rounds = {len(samples.rounds) for samples in known.samples.values()}
    return known if EAGER in known.samples and len(rounds) == 1 and rounds != {0} else None


def save(name: str, known: Known) -> None:
    """Keep it. Where the folder cannot be written to, the next candidate has them measured again."""
    with contextlib.suppress(OSError, HandsError):
        folder = _folder()
        scratch = folder / f"{name}.{os.getpid()}"
        scratch.write_bytes(_ADAPTER.dump_json(known))
        scratch.replace(folder / f"{name}.json")
        for stale in sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime, reverse=True)[KEPT:]:
            stale.unlink(missing_ok=True)


def _folder() -> Path:
    return private_folder(config().cache_dir / "baselines")
