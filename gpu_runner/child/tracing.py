"""One forward on two draws, operation by operation: where what the inputs say is lost. Summaries of samples, no tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from . import state, tensors

if TYPE_CHECKING:
    from .reference import Reference

MOST = 2000  # operations
SAMPLE = 2048  # elements of each result


class _Trace(TorchDispatchMode):
    """Of each operation with a floating-point result: name, a sample, and how the whole compares with what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[tuple[str, torch.Tensor, dict[str, Any]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        first = out[0] if isinstance(out, tuple) and out else out
        given = [a for a in tree_leaves(args) if isinstance(a, torch.Tensor) and a.is_floating_point() and a.numel()]
        if not (isinstance(first, torch.Tensor) and first.is_floating_point() and first.numel() and given):
            return out
        if len(self.rows) < MOST and not func.is_view:
            flat = first.detach().reshape(-1)
            half = first.shape[0] // 2 if first.dim() and first.shape[0] % 2 == 0 else 0
            self.rows.append((
                func._schema.name,
                flat[:: max(1, flat.numel() // SAMPLE)].double().cpu(),
                {
                    "spread": float(flat.double().max() - flat.double().min()),
                    "given": max(float(a.detach().abs().max()) for a in given),
                    "same": any(_same(a, first) for a in given),
                    "halves": _rms((first[:half] - first[half:]).detach().double().cpu()) if half else None,
                },
            ))  # fmt: skip
        return out


def trace(it: Reference, inputs: list[Any], seed: int) -> dict[str, Any]:
    """`operations`: op, `rms` of its result, `change` of it between the two draws, `spread` of its elements, the largest it was
    `given`, whether the result is the `same` as that, and how far the `halves` of the batch lie apart (None: it has none)."""
    found = []
    for values in (inputs, it.inputs(seed)):
        state.restore(it.model, it.current)
        moved = tensors.map_tensors(values, lambda t: t.to(it.device))
        with _Trace() as seen:
            it.forward(moved)
        found.append(seen.rows)
    state.restore(it.model, it.current)
    rows = []
    for (name, a, facts), (other, b, _) in zip(*found, strict=False):
        if name != other or a.shape != b.shape:
            break
        rows.append({"op": name, "rms": _rms(a), "change": _rms(a - b), **facts})
    return {"operations": rows}


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Values of two devices, as a constant's and the result that it was moved into, are not compared."""
    return a.shape == b.shape and a.device == b.device and torch.equal(a, b)


def _rms(t: torch.Tensor) -> float:
    return float(t.nan_to_num(0.0, 0.0, 0.0).square().mean().sqrt())
