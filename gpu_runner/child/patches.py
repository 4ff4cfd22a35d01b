"""What a program has replaced in its own process: clocks, torch's functions, and our own code beside it.

None of it reaches the judge or the parent's clock. It is reported, and a hand on our own code is a verdict. A program that also
undoes this module hides its patches, and gains nothing by it.
"""

from __future__ import annotations

import builtins
import gc
import os
import sys
import time
from types import ModuleType
from typing import Any

import torch

_OURS = __name__.rpartition(".")[0]
_WATCHED: tuple[tuple[str, Any], ...] = (
    ("time", time),
    ("gc", gc),
    ("os", os),
    ("builtins", builtins),
    ("torch", torch),
    ("torch.Tensor", torch.Tensor),
    ("torch.nn.functional", torch.nn.functional),
    ("torch.cuda", torch.cuda),
    ("torch.cuda.Event", torch.cuda.Event),
    ("torch.nn.Module", torch.nn.Module),
)
_MOST = 20
_before: dict[tuple[str, str], Any] = {}


def _owners() -> list[tuple[str, Any]]:
    """The watched modules and classes, our own last, each with its name."""
    ours: list[tuple[str, Any]] = []
    for name, module in list(sys.modules.items()):
        if name.startswith(f"{_OURS}.") and isinstance(module, ModuleType):
            ours.append((name, module))
            ours += [(f"{name}.{k}", v) for k, v in vars(module).items() if isinstance(v, type) and v.__module__ == name]
    return [*_WATCHED, *ours]


def _callables() -> dict[tuple[str, str], Any]:
    return {(name, key): value for name, owner in _owners() for key, value in list(vars(owner).items()) if callable(value)}


def remember() -> None:
    """The state that later patches are held against. Called before any of the program's code runs."""
    _before.clear()
    _before.update(_callables())


def found() -> dict[str, list[str]]:
    """Names that mean something else than at `remember`: `ours` in this package, `others` in torch and the standard library."""
    now = _callables()
    changed = [(owner, key) for (owner, key), value in _before.items() if now.get((owner, key)) is not value]
    ours = [f"{owner}.{key}".removeprefix(f"{_OURS}.") for owner, key in changed if owner.startswith(f"{_OURS}.")]
    others = [f"{owner}.{key}" for owner, key in changed if not owner.startswith(f"{_OURS}.")]
    return {"ours": sorted(ours)[:_MOST], "others": sorted(others)[:_MOST]}
