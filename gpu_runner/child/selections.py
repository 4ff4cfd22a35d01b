"""Which values the integer results of selections point at: of two equal ones either index is right.

Found by watching one forward: a result that is the index tensor of an argmax, argmin, max, min, median, mode, kthvalue, topk or
sort, or that in another type of whole numbers, is given with the tensor that was selected from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from . import state, tensors

if TYPE_CHECKING:
    from .reference import Reference

_REDUCE = ("aten::argmax", "aten::argmin", "aten::max", "aten::min")
_PICK = ("aten::kthvalue", "aten::median", "aten::nanmedian", "aten::mode")  # one, along the last dimension if none is named
_ORDER = ("aten::topk", "aten::sort")  # several along the dimension: none may come twice


class _Watch(TorchDispatchMode):
    """Keeps (index tensor, selected-from tensor, dimension, whether several are taken)."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[torch.Tensor, torch.Tensor, int | None, bool]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        name = func._schema.name
        given = dict(zip((a.name for a in func._schema.arguments), args, strict=False)) | (kwargs or {})
        if name == "aten::_to_copy":
            self.seen += [(out, *rest) for indices, *rest in self.seen if indices is given["self"] and _holds(out, *rest[:2])]
        if name in (*_REDUCE, *_PICK, *_ORDER):
            indices = out if isinstance(out, torch.Tensor) else out[1] if isinstance(out, tuple) and len(out) == 2 else None
            stable = given.get("stable") is True  # then ties have an order of their own
            if indices is not None and indices.dtype == torch.int64 and not stable:
                dim = given.get("dim", None if name in _REDUCE else -1)
                self.seen.append((indices, given["self"], dim, name in _ORDER))
        return out


def _holds(indices: torch.Tensor, source: torch.Tensor, dim: int | None) -> bool:
    """Whether every index of the selection is still itself in this type."""
    if indices.is_floating_point() or indices.is_complex() or indices.dtype == torch.bool:
        return False
    return (source.numel() if dim is None or source.dim() == 0 else source.shape[dim]) - 1 <= torch.iinfo(indices.dtype).max


def find(it: Reference, inputs: list[Any], fd: int) -> dict[str, Any]:
    """`found`: [leaf, dimension, whether several are taken] of results that are indices, `sources` what they index."""
    state.restore(it.model, it.current)
    with _Watch() as watch:
        output = it.forward(inputs)
    state.restore(it.model, it.current)
    found, sources = [], []
    for i, leaf in enumerate(tensors.flatten(output)[1]):
        if not isinstance(leaf, torch.Tensor):
            continue
        for indices, source, dim, several in reversed(watch.seen):
            if leaf.data_ptr() == indices.data_ptr() and leaf.numel() == indices.numel() and leaf.is_contiguous():
                flat = dim is None or source.dim() == 0
                found.append([i, 0 if flat else dim % source.dim(), several])
                sources.append(source.reshape(-1) if flat else source)
                break
    return {"found": found, "sources": tensors.write(sources, fd)}
