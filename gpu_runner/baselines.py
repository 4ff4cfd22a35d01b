"""Baselines that outlive a task: eager and the modes of torch.compile, as they were once measured side by side.

Compiling takes longer than all else of a verification, and its arms do not change while reference, device and versions are the
same. Whether the machine still is what it was, eager tells: it is measured with every candidate (`speed.known_holds`).
"""

from __future__ import annotations

from pydantic import TypeAdapter, ValidationError

from gpu_runner.config import config
from gpu_runner.contracts import DeviceInfo, Protocol, digest
from gpu_runner.shelf import Shelf
from gpu_runner.timed import EAGER, Known

_SHELF = Shelf("baselines")
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
    content = _SHELF.load(name)
    try:
        known = _ADAPTER.validate_json(content) if content else None
    except ValidationError:
        return None
    if known is None:
        return None
    rounds = {len(samples.rounds) for samples in known.samples.values()}
    return known if EAGER in known.samples and len(rounds) == 1 and rounds != {0} else None


def save(name: str, known: Known) -> None:
    """Keep it. Where that fails, the next candidate has them measured again."""
    _SHELF.save(name, _ADAPTER.dump_json(known))
