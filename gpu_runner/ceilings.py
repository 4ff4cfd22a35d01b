"""The measured ceilings of this machine, kept between processes.

A busy machine measures low and never high, so the largest figure seen of a device, torch and thread count is the ceiling.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from gpu_runner.config import config
from gpu_runner.contracts import digest

NAMES = ("bandwidth_bps", "peak_flops")
HALVES = ("float16_flops", "bfloat16_flops")  # of a GPU alone


def _path(device: str, torch: str) -> Path:
    key = digest({"device": device, "torch": torch, "threads": config().threads})[:16]
    return config().cache_dir / f"ceilings-{key}.json"


def known(device: str, torch: str) -> dict[str, float]:
    """`bandwidth_bps` in bytes/s, `peak_flops` and HALVES in FLOP/s, as far as they were measured; empty when never."""
    try:
        data = json.loads(_path(device, torch).read_text())
        figures = {name: float(data[name]) for name in (*NAMES, *(half for half in HALVES if half in data))}
        return {name: figure for name, figure in figures.items() if figure > 0}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def learn(device: str, torch: str, measured: dict[str, float]) -> None:
    """Keep what is higher than before. A folder that cannot be written to costs the memory, not the job."""
    before = known(device, torch)
    wanted = (*NAMES, *(half for half in HALVES if half in measured or half in before))
    figures = {name: max(float(measured.get(name, 0.0)), before.get(name, 0.0)) for name in wanted}
    if figures == before:
        return
    path = _path(device, torch)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = path.with_suffix(f".{os.getpid()}")
        scratch.write_text(json.dumps(figures))
        scratch.replace(path)
    except OSError:
        return
