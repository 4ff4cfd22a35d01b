"""Builds the values of one nest and keeps their axes consistent: aligning operands, splitting and merging axes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from agents.engineers.offline.graph import View
from agents.engineers.offline.ir import Axis, Dims, Kind, NotFusible, Value, Window
from gpu_runner.contracts import GraphNode

KINDS: dict[str, Kind] = {"float32": "float", "int64": "int", "bool": "bool"}
MAX_VALUES = 400


class Builder:
    """State while a group of nodes is lowered. Tensors from outside become loads, each once."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.values: list[Value] = []
        self.env: dict[str, Value | tuple[Value | None, ...]] = {}
        self.line = ""

    # Making values

    def add(self, value: Value) -> Value:
        value.note = self.line
        self.values.append(value)
        if len(self.values) > MAX_VALUES:
            raise NotFusible(f"more than {MAX_VALUES} values in one kernel would not be readable")
        return value

    def const(self, number: float | int | bool) -> Value:
        kind: Kind = "bool" if isinstance(number, bool) else "int" if isinstance(number, int) else "float"
        return self.add(Value("const", (), kind, number=number))

    def load(self, name: str) -> Value:
        """The whole of an outside tensor, with a fresh axis for each dimension longer than 1."""
        spec = self.view.spec(name)
        if spec is None:
            raise NotFusible(f"{name} is not one tensor")
        if spec.dtype not in KINDS:
            raise NotFusible(f"{name} has the dtype {spec.dtype}; kernels here are written for float32, int64 and bool")
        if spec.numel == 0:
            raise NotFusible(f"{name} is empty")
        dims = tuple((Axis(n),) if n > 1 else () for n in spec.shape)
        return self.add(Value("load", dims, KINDS[spec.dtype], tensor=name, strides=spec.stride))

    def get(self, argument: Any) -> Value:
        """The value of an argument: a node of the group, an outside tensor, or a number."""
        if isinstance(argument, dict) and "ref" in argument:
            name = argument["ref"]
            if name not in self.env:
                self.env[name] = self.load(name)
            value = self.env[name]
            if isinstance(value, tuple):
                raise NotFusible(f"{name} is several tensors")
            return value
        if isinstance(argument, dict) and "float" in argument:
            return self.const(float(argument["float"]))
        if isinstance(argument, (bool, int, float)):
            return self.const(argument)
        raise NotFusible("an argument is neither a tensor nor a number")

    def call(self, fn: str, *args: Value | float | int, kind: Kind = "float") -> Value:
        """A pointwise expression; operands broadcast against each other."""
        values = [a if isinstance(a, Value) else self.const(float(a)) for a in args]
        return self.add(Value("call", self.align(values), kind, fn=fn, args=tuple(values)))

    def as_float(self, value: Value) -> Value:
        if value.kind == "float":
            return value
        if value.op == "const":
            return self.const(float(value.number))
        return self.call("to_float", value)

    def reduce(self, fn: str, value: Value, dims: Iterable[int], keep: bool = True) -> Value:
        """sum, max or min over whole dimensions. Dimensions of size 1 reduce over nothing, which is right."""
        gone = self.positions(value, dims)
        over = tuple(axis for d in sorted(gone) for axis in value.dims[d])
        rest: list[tuple[Axis, ...]] = []
        for d, dim in enumerate(value.dims):
            if d not in gone:
                rest.append(dim)
            elif keep:
                rest.append(())
        if not over:
            return self.view_as(value, tuple(rest))
        return self.add(Value("reduce", tuple(rest), value.kind, fn=fn, args=(value,), over=over))

    def view_as(self, value: Value, dims: Dims) -> Value:
        """The same numbers under other dimensions."""
        return self.add(Value("call", dims, value.kind, fn="same", args=(value,)))

    def positions(self, value: Value, dims: Iterable[int]) -> set[int]:
        rank = len(value.dims)
        return {d % rank for d in dims} if rank else set()

    def count(self, value: Value, dims: Iterable[int]) -> int:
        """How many elements a reduction over `dims` folds into one."""
        return math.prod(axis.size for d in self.positions(value, dims) for axis in value.dims[d])

    # Axes

    def align(self, values: Sequence[Value]) -> Dims:
        """The broadcast dimensions of some operands; makes their axes the same objects where they meet."""
        rank = max((len(v.dims) for v in values), default=0)
        for back in range(1, rank + 1):
            meeting = [v for v in values if len(v.dims) >= back and v.dims[-back]]
            for other in meeting[1:]:
                self.match(meeting[0].dims[-back], other.dims[-back])
        dims: list[tuple[Axis, ...]] = []
        for back in range(rank, 0, -1):
            dims.append(next((v.dims[-back] for v in values if len(v.dims) >= back and v.dims[-back]), ()))
        return tuple(dims)

    def match(self, left: Sequence[Axis], right: Sequence[Axis]) -> None:
        """Make two runs of axes that cover the same dimension one run, splitting the coarser where they differ."""
        a, b = list(left), list(right)
        while a and b:
            x, y = a.pop(0), b.pop(0)
            if x is y:
                continue
            if x.size == y.size:
                self.replace(y, (x,))
                b = [x if axis is y else axis for axis in b]
                a = [x if axis is y else axis for axis in a]
            elif x.size % y.size == 0:
                parts = self.split(x, y.size)
                a = [*parts, *a]
                b = [y, *b]
            elif y.size % x.size == 0:
                parts = self.split(y, x.size)
                b = [*parts, *b]
                a = [x, *a]
            else:
                raise NotFusible("two shapes cut the same dimension differently")
        if a or b:
            raise NotFusible("two shapes cover a dimension differently")

    def split(self, axis: Axis, leading: int) -> tuple[Axis, Axis]:
        """Cut an axis into `leading` × the rest, everywhere."""
        parts = (Axis(leading), Axis(axis.size // leading))
        self.replace(axis, parts)
        return parts

    def replace(self, old: Axis, new: tuple[Axis, ...]) -> None:
        def swap(run: tuple[Axis, ...]) -> tuple[Axis, ...]:
            return tuple(part for axis in run for part in (new if axis is old else (axis,)))

        for value in self.values:
            value.dims = tuple(swap(dim) for dim in value.dims)
            value.over = swap(value.over)
            flat = [axis for dim in value.dims for axis in dim] + list(value.over if value.op == "reduce" else ())
            if len(set(map(id, flat))) != len(flat):
                raise NotFusible("a tensor meets its own transpose, which needs two passes")

    def lengthen(self, run: Sequence[Axis], whole: Axis, first: int, size: int, place: Value) -> None:
        """Make the axis of a tensor a part of the longer axis `whole`, from `first` on; `place`: the position along it."""
        if len(run) != 1 or run[0].size != size:
            raise NotFusible("a tensor is joined with others along several axes")
        axis = run[0]
        users = [v for v in self.values if any(axis in dim for dim in v.dims) or axis in v.over]
        if any(v.op in ("gather", "index", "reduce") or v.window is not None or axis in v.over for v in users):
            raise NotFusible("a tensor that was picked, joined or summed is joined with others along the same axis")
        for load in [v for v in users if v.op == "load"]:
            load.window, load.args = Window(first, size, load.stride_of(axis)), (place,)
        self.replace(axis, (whole,))

    def reshape(self, value: Value, old: Sequence[int], new: Sequence[int]) -> Dims:
        """Dimensions after a view from shape `old` to `new`: axes are regrouped, and split where the new shape cuts them."""
        if any(n > 1 and not dim for n, dim in zip(old, value.dims, strict=True)):
            raise NotFusible("an expanded tensor is reshaped")
        position = 0
        flat = [axis for dim in value.dims for axis in dim]
        dims: list[tuple[Axis, ...]] = []
        for size in new:
            run: list[Axis] = []
            have = 1
            while have < size:
                axis = flat[position]
                need = size // have
                if axis.size > need:
                    if axis.size % need:
                        raise NotFusible("a view cuts a dimension unevenly")
                    flat[position : position + 1] = list(self.split(axis, need))
                    axis = flat[position]
                run.append(axis)
                have *= axis.size
                position += 1
            if have != size:
                raise NotFusible("a view cuts a dimension unevenly")
            dims.append(tuple(run))
        return tuple(dims)


def argument(node: GraphNode, position: int, name: str, default: Any = None) -> Any:
    """An argument by position or keyword."""
    if position < len(node.args):
        return node.args[position]
    return node.kwargs.get(name, default)
