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
_state: dict[str, list[str]] = {"flushed": []}
_tiny = [sys.float_info.min, 0.5, 5e-324, 1e300]
_before: dict[tuple[str, str], tuple[int, int]] = {}
_alive: list[Any] = []  # what was replaced must live on, or its identity could be given to something else


def _owners() -> list[tuple[str, Any]]:
    """The watched modules and classes, our own last, each with its name."""
    ours: list[tuple[str, Any]] = []
    for name, module in list(sys.modules.items()):
        if name.startswith(f"{_OURS}.") and isinstance(module, ModuleType):
            ours.append((name, module))
            ours += [(f"{name}.{k}", v) for k, v in vars(module).items() if isinstance(v, type) and v.__module__ == name]
    return [*_WATCHED, *ours]


def _callables() -> dict[tuple[str, str], tuple[int, int]]:
    """Identity of every function or class, and of the code behind it."""
    return {
        (name, key): (id(value), id(getattr(value, "__code__", None)))
        for name, owner in _owners()
        for key, value in list(vars(owner).items())
        if callable(value)
    }


def remember() -> None:
    """The state that later patches are held against. Called before any of the program's code runs."""
    _before.update(_callables())
    _state["flushed"] = [_flushes()]
    _alive.extend(value for _, owner in _owners() for value in vars(owner).values())
    _alive.extend(value.__code__ for value in list(_alive) if hasattr(value, "__code__"))


def found() -> dict[str, list[str]]:
    """Names that mean something else than at `remember`: `ours` in this package, `others` in torch and the standard library."""
    now = _callables()
    changed = [(owner, key) for (owner, key), value in _before.items() if now.get((owner, key)) != value]
    ours = [f"{owner}.{key}".removeprefix(f"{_OURS}.") for owner, key in changed if owner.startswith(f"{_OURS}.")]
    others = [f"{owner}.{key}" for owner, key in changed if not owner.startswith(f"{_OURS}.")]
    return {"ours": sorted(ours)[:_MOST], "others": sorted(others)[:_MOST], "flushed": [*_state["flushed"], _flushes()]}


def _flushes() -> str:
    """What this thread's arithmetic does with tiny numbers: kept, or results, operands or both taken for zero."""
    least, half, denormal, large = _tiny
    result, operand = least * half == 0.0, denormal * large == 0.0
    return {(False, False): "kept", (True, False): "results", (False, True): "operands"}.get((result, operand), "both")
