"""The program that a profiler is started around: loads one program, warms it up, and runs its forwards in a marked stretch."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from typing import Any

import torch

from . import candidate, profiling, reference
from .loading import Refused

WARM_UP = 3


def run(path: str) -> int:
    """`path`: the order as JSON: `role`, `load` (its payload), `inputs` and `weights` (manifest and path, or null),
    `iterations`, `threads`, `folder`, `packages`. What it says when it cannot is its last line, and its status is 3."""
    with open(path, encoding="utf-8") as file:
        order = json.load(file)
    os.chdir(order["folder"])
    sys.path.extend(p for p in order["packages"] if p not in sys.path)
    torch.set_num_threads(order["threads"])
    try:
        module: Any = candidate if order["role"] == "candidate" else reference
        _ask(module, "load", order["load"])
        if order["weights"]:
            with _opened(order["weights"]["path"]) as fd:
                _ask(module, "weights", {"weights": order["weights"]["manifest"]}, os.dup(fd))
        arm = module._held["it"].arm
        with _opened(order["inputs"]["path"]) as fd:
            forward = profiling.forward_of(arm, order["inputs"]["manifest"], fd)
        _marked(forward, arm.device, order["iterations"])
    except Refused as error:
        print(f"the program was refused: {error.as_dict()['sentence']}", file=sys.stderr)
        return 3
    return 0


def _ask(module: Any, kind: str, payload: dict[str, Any], *fds: int) -> None:
    answer = module.handle(kind, payload, list(fds), lambda _: None)
    if "refusal" in answer:
        raise Refused(**answer["refusal"])


@contextlib.contextmanager
def _opened(path: str) -> Iterator[int]:
    fd = os.open(path, os.O_RDONLY)
    try:
        yield fd
    finally:
        os.close(fd)


def _marked(forward: Any, device: str, iterations: int) -> None:
    """One forward goes ahead of the ranges, so that the first one that counts finds the device at work, as all others do."""
    on_gpu = device != "cpu"
    for _ in range(WARM_UP):
        forward()
    if on_gpu:
        torch.cuda.synchronize()
        torch.cuda.profiler.start()
    forward()
    with _range("stitchweb_measure", on_gpu):
        for _ in range(iterations):
            with _range(profiling.ITERATION, on_gpu):
                forward()
        if on_gpu:
            torch.cuda.synchronize()
    if on_gpu:
        torch.cuda.profiler.stop()


@contextlib.contextmanager
def _range(name: str, on_gpu: bool) -> Iterator[None]:
    if on_gpu:
        torch.cuda.nvtx.range_push(name)
    try:
        yield
    finally:
        if on_gpu:
            torch.cuda.nvtx.range_pop()
