"""How a loop nest spreads over a GPU."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from agents.engineers.offline.ir import Axis, Nest, NotFusible, Store, Value
from agents.engineers.offline.nests import merge, tail_reductions

Form = Literal["points", "turned", "warps", "blocks", "columns", "shared"]
WARP_ROW = 1024  # numbers of a row up to which a warp is enough
FEWEST_ROWS, FEWEST_COLUMNS = 528, 8192  # below, most of the device would wait for a few
LONG_ROW = 4096  # numbers of a row from which several blocks can share it
LARGE = 4  # a tensor with at least this part of the points decides how they are spread


def form_of(nest: Nest) -> Form:
    """The way, for whose sake the axes of a nest without reductions become one run. NotFusible when none is good."""
    walked = {*nest.outer, *nest.kept}
    if any(not walked <= v.args[0].axes for v in tail_reductions(nest)):
        raise NotFusible("one number out of a part of what the kernel walks through")
    rows = math.prod(a.size for a in nest.outer)
    if not nest.reduced:
        nest.outer, nest.kept = [*nest.outer, *nest.kept], []
        merge(nest)
        return "turned" if not tail_reductions(nest) and turn_of(nest) is not None else "points"
    length = math.prod(a.size for a in nest.reduced)
    columns = rows * math.prod(a.size for a in nest.kept)
    if nest.kept:
        if columns < FEWEST_COLUMNS and length > 64:
            raise NotFusible("too few sums for the threads of a GPU")
        return "columns"
    if rows < FEWEST_ROWS and length >= LONG_ROW:
        if tail_reductions(nest):
            raise NotFusible("too few rows for the blocks of a GPU, and one number out of all of them")
        return "shared"
    return "warps" if length <= WARP_ROW else "blocks"


@dataclass(frozen=True)
class Turn:
    """`fast`: the axis along which results are contiguous; `other`: that of the operands `turned`."""

    fast: Axis
    other: Axis
    turned: tuple[Value, ...]


def turn_of(nest: Nest) -> Turn | None:
    """How a nest without reductions turns its operands around, or None when all large tensors lie alike."""
    large = [t for t in tensors_of(nest) if math.prod(a.size for dim in t.dims for a in dim) * LARGE >= nest.elements]
    fast = {axis for s in large if isinstance(s, Store) and (axis := _contiguous(s)) is not None}
    if len(fast) > 1:
        raise NotFusible("large results of two layouts")
    if not fast:
        return None
    (along,) = fast
    loads = [v for v in large if isinstance(v, Value) and v.op == "load" and v.stride_of(along) > 1]
    others = [axis for v in loads if (axis := _contiguous(v)) is not None and axis is not along]
    if not others:
        return None
    other = max(others, key=others.count)
    return Turn(along, other, tuple(v for v in loads if _contiguous(v) is other))


def tensors_of(nest: Nest) -> list[Value | Store]:
    """Everything that is read or written."""
    return [*nest.stores, *(v for v in nest.values if v.op in ("load", "gather"))]


def _contiguous(tensor: Value | Store) -> Axis | None:
    """The axis of neighbours in memory."""
    axes = [a for dim in tensor.dims for a in dim if a.size > 1 and tensor.stride_of(a) > 0]
    return min(axes, key=tensor.stride_of, default=None)
