"""How a loop nest spreads over a GPU."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from agents.engineers.offline.ir import Axis, Nest, NotFusible, Store, Value
from agents.engineers.offline.nests import merge, tail_reductions

Form = Literal["points", "turned", "warps", "blocks", "columns", "staged"]
WARP_ROW = 1024  # numbers of a row up to which a warp is enough
FEWEST_ROWS, FEWEST_COLUMNS = 528, 8192  # below, most of the device would wait for a few
LONG_COLUMN, FEWER_COLUMNS = 1024, 131072  # of longer columns: as many, or threads wait for their own loads
LONG_ROW = 4096  # numbers of a row from which several blocks can share it
WINDOW = (
    32  # numbers up to which they are one thread's, however they lie: neighbouring threads find the rest of a line in cache
)
SHORT_ROW = 64  # numbers of a row up to which a thread does it alone
LARGE = 4  # a tensor with at least this part of the points decides how they are spread


def settle(nest: Nest) -> Form:
    """Brings a nest into the shape in which a GPU does it, and says which. NotFusible when none is good."""
    walked = {*nest.outer, *nest.kept}
    tails = tail_reductions(nest)
    if any(not walked <= v.args[0].axes for v in tails):
        raise NotFusible("one number out of a part of what the kernel walks through")
    if not nest.reduced:
        nest.outer, nest.kept = [*nest.outer, *nest.kept], []
        merge(nest)
        return "turned" if not tails and turn_of(nest) is not None else "points"
    sum_squares_at_once(nest)
    rows, columns, length = (math.prod(a.size for a in axes) for axes in (nest.outer, nest.kept, nest.reduced))
    if length <= WINDOW and rows * columns >= FEWEST_COLUMNS and _lie_alike(nest):
        return "columns"
    few = rows * columns < FEWEST_COLUMNS if nest.kept else rows < FEWEST_ROWS and length >= LONG_ROW
    waits = nest.kept and not tails and length > LONG_COLUMN and rows * columns < FEWER_COLUMNS
    if turn_of(nest) is not None or waits or (few and length > SHORT_ROW):
        if tails:
            raise NotFusible("too few sums for the threads of a GPU, and one number out of all of them")
        if length <= (WARP_ROW if _by_rows(nest) else SHORT_ROW):
            raise NotFusible("short rows between tensors of different layouts, which are better turned around apart")
        return "staged"
    if nest.kept:
        return "columns"
    return "warps" if length <= WARP_ROW else "blocks"


def _lie_alike(nest: Nest) -> bool:
    """Whether all large tensors are contiguous along one axis, or along what is reduced."""
    large = [t for t in tensors_of(nest) if math.prod(a.size for dim in t.dims for a in dim) * LARGE >= nest.elements]
    return len({contiguous_axis(t) for t in large} - {*nest.reduced, None}) <= 1


def _by_rows(nest: Nest) -> bool:
    """Whether neighbours in the largest operand are summed with each other."""
    loads = [v for v in nest.values if v.op == "load" and v.axes & set(nest.reduced)]
    largest = max(loads, key=lambda v: math.prod(a.size for a in v.axes), default=None)
    return largest is not None and contiguous_axis(largest) in nest.reduced


def sum_squares_at_once(nest: Nest) -> None:
    """Sums of squares about a mean from sums of squares and of numbers, which need no mean first and so no second pass.

    They are subtracted in float64, which keeps more digits than the numbers have.
    """
    for value in list(nest.values):
        found = _about_mean(value)
        if found is None:
            continue
        x, total, count = found
        squares = Value("reduce", value.dims, fn="squares", args=(x,), over=value.over, note=value.note, axes=value.axes)
        nest.values.insert(nest.values.index(value), squares)
        value.op, value.fn, value.args, value.over = "call", "spread", (total, squares, count), ()
    needed: set[Value] = set()
    stack = [s.value for s in nest.stores]
    while stack:
        value = stack.pop()
        if value not in needed:
            needed.add(value)
            stack.extend(value.args)
    nest.values = [v for v in nest.values if v in needed]


def _about_mean(value: Value) -> tuple[Value, Value, Value] | None:
    """Of a sum of squares about a mean: the numbers, their sum and their count."""
    if value.op != "reduce" or value.fn != "sum" or value.args[0].fn != "square":
        return None
    apart = value.args[0].args[0]
    if apart.fn != "sub":
        return None
    x, mean = apart.args
    if mean.fn != "div" or mean.args[0].op != "reduce" or mean.args[0].fn != "sum" or mean.args[1].op != "const":
        return None
    total, count = mean.args
    same = total.args[0] is x and total.over == value.over and count.number == math.prod(a.size for a in value.over)
    return (x, total, count) if same else None


@dataclass(frozen=True)
class Turn:
    """`fast`: the axis along which results are contiguous; `other`: that of the operands `turned`."""

    fast: Axis
    other: Axis
    turned: tuple[Value, ...]


def turn_of(nest: Nest) -> Turn | None:
    """How a nest without reductions turns its operands around, or None when all large tensors lie alike."""
    large = [t for t in tensors_of(nest) if math.prod(a.size for dim in t.dims for a in dim) * LARGE >= nest.elements]
    fast = {axis for s in large if isinstance(s, Store) and (axis := contiguous_axis(s)) is not None}
    if len(fast) > 1:
        raise NotFusible("large results of two layouts")
    if not fast:
        return None
    (along,) = fast
    loads = [v for v in large if isinstance(v, Value) and v.op == "load" and v.stride_of(along) > 1]
    others = [axis for v in loads if (axis := contiguous_axis(v)) is not None and axis is not along]
    if not others:
        return None
    other = max(others, key=others.count)
    return Turn(along, other, tuple(v for v in loads if contiguous_axis(v) is other))


def tensors_of(nest: Nest) -> list[Value | Store]:
    """Everything that is read or written."""
    return [*nest.stores, *(v for v in nest.values if v.op in ("load", "gather"))]


def contiguous_axis(tensor: Value | Store) -> Axis | None:
    """The axis of neighbours in memory."""
    axes = [a for dim in tensor.dims for a in dim if a.size > 1 and tensor.stride_of(a) > 0]
    return min(axes, key=tensor.stride_of, default=None)
