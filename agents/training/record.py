"""What a recorded run begins with: when, where, with which versions and by which command it was made."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from agents.training.recipe import Recipe
from gpu_runner.device import cpu_name

PACKAGES = ("torch", "transformers", "trl", "accelerate", "peft")


def header(recipe: Recipe, seed: int, command: str) -> dict[str, Any]:
    """The first line of a curve."""
    return {
        "kind": "run", "recipe": recipe.name, "model": recipe.model.name, "seed": seed, "command": command,
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC", "device": device(), "python": platform.python_version(),
        "versions": {name: found for name in PACKAGES if (found := _version(name))},
        "stages": [stage.model_dump(mode="json") for stage in recipe.stages],
    }  # fmt: skip


def device() -> str:
    """The processor, and how many of its cores this process may use."""
    return f"{cpu_name()}, {len(os.sched_getaffinity(0))} cores usable"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
