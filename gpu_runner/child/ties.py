"""Indices that differ from eager's and select the same value: of two equal ones either is right."""

from __future__ import annotations

import torch

ROUNDINGS = 4.0  # two values no further apart are a tie: each side rounds what it selects from


def ties(candidate: torch.Tensor, eager: torch.Tensor, source: torch.Tensor, dim: int, several: bool) -> int:
    """How many differing indices select the same value as eager's, up to a few roundings of it; none of a selection of several
    that takes one element twice."""
    moved = source.double().movedim(dim, -1)
    length = moved.shape[-1]
    taken = int(eager.numel() // max(1, moved[..., 0].numel()))
    if length == 0 or taken * moved[..., 0].numel() != eager.numel() or (taken != 1 and not several):
        return 0

    def rows(indices: torch.Tensor) -> torch.Tensor:
        shaped = indices.movedim(dim, -1) if several else indices
        return shaped.reshape(-1, taken).long()

    mine, theirs, values = rows(candidate), rows(eager), moved.reshape(-1, length)
    inside = ((mine >= 0) & (mine < length)).all(-1, keepdim=True)
    mine = mine.clamp(0, length - 1)
    chosen, wanted = values.gather(1, mine), values.gather(1, theirs)
    allowed = ROUNDINGS * (torch.finfo(source.dtype).eps if source.is_floating_point() else 0.0) * wanted.abs()
    same = ((chosen - wanted).abs() <= allowed) | (chosen == wanted) | (chosen.isnan() & wanted.isnan())
    ordered = mine.sort(-1).values
    once = (ordered[:, 1:] != ordered[:, :-1]).all(-1, keepdim=True)
    return int(((mine != theirs) & same & inside & once).sum())
