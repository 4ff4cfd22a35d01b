"""The little language between ATen and C++: values over named axes.

A fused group becomes one `Nest`. Each value says, per dimension of its tensor, which axes of the common iteration space the
dimension runs over; a dimension of size 1 runs over none. Broadcasting, keepdim, flattening and the channel groups of
GroupNorm are then all the same thing: which axes a value depends on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Dims = tuple[tuple["Axis", ...], ...]
Kind = Literal["float", "int", "bool"]


ACCUMULATOR = "<sums>"  # the pretended tensor that holds the sums of a matrix product or convolution


class NotFusible(Exception):
    """These nodes do not make one kernel; the message says why."""


@dataclass(eq=False)
class Axis:
    """One loop. `size` is its trip count."""

    size: int


@dataclass(frozen=True)
class Window:
    """A tensor that lies at `first` … `first + size - 1` of a longer axis, and counts as 0 elsewhere. `args[0]` of the load is
    the position, `stride` the tensor's step along it."""

    first: int
    size: int
    stride: int


@dataclass(eq=False)
class Value:
    """An expression. `kind` float values are float32, `int` int64, `bool` one byte.

    op "load": `tensor` names the source; "gather": a load whose dimension `gather_dim` is addressed by `args[0]`; "index": the
    position along the axes that its `strides` name; "const": `number`; "reduce": `fn` is sum, max, min or top (a maximum that
    may lose NaN) over `over`; "call": `fn` is the name of a C++ expression of `emit.expressions`.
    """

    op: Literal["load", "index", "const", "call", "reduce", "gather"]
    dims: Dims
    kind: Kind = "float"
    fn: str = ""
    args: tuple[Value, ...] = ()
    number: float | int | bool = 0
    tensor: str = ""
    strides: tuple[int, ...] = ()  # of the tensor's dimensions, in elements
    gather_dim: int = 0
    gather_stride: int = 0
    over: tuple[Axis, ...] = ()
    window: Window | None = None  # of a load that is a part of a longer axis
    note: str = ""  # the user's line
    axes: frozenset[Axis] = field(default_factory=frozenset)  # what the value varies over

    def stride_of(self, axis: Axis) -> int:
        """Elements to move in memory per step of `axis`; 0 when the tensor does not vary along it."""
        return _stride(self.dims, self.strides, axis)


def _stride(dims: Dims, strides: tuple[int, ...], axis: Axis) -> int:
    for dim, stride in zip(dims, strides, strict=True):
        step = stride
        for part in reversed(dim):
            if part is axis:
                return step
            step *= part.size
    return 0


@dataclass
class Store:
    """A value that leaves the kernel as the graph's node `name`, laid out by `strides` per dimension of `dims`."""

    name: str
    value: Value
    dims: Dims
    strides: tuple[int, ...]

    def stride_of(self, axis: Axis) -> int:
        """As `Value.stride_of`."""
        return _stride(self.dims, self.strides, axis)


@dataclass
class Nest:
    """One kernel: loops over `outer` in parallel; inside, reductions over `reduced`; results kept along `kept`.

    Without reductions `reduced` is empty and `kept` holds the innermost axes that are worth a vector loop.
    """

    nodes: tuple[str, ...]
    outer: list[Axis]
    reduced: list[Axis]
    kept: list[Axis]
    values: list[Value]  # every value, operands before users
    stores: list[Store]
    loads: list[str]  # tensors read, in order of first use

    @property
    def elements(self) -> int:
        """Points of the whole iteration space."""
        n = 1
        for axis in (*self.outer, *self.reduced, *self.kept):
            n *= axis.size
        return n
