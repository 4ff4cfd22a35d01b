"""A nest with reductions as two: one that makes the sums and what depends on them alone, and the pointwise rest."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agents.engineers.offline.emit.cuda_forms import contiguous_axis
from agents.engineers.offline.ir import Axis, Dims, Nest, Store, Value
from agents.engineers.offline.nests import merge

CELL = "<cell>"  # begins the pretended tensors of the rest: the values `known`, by number


@dataclass(frozen=True)
class Stages:
    """`sums` makes the values `known`, of which each has a number for every cell: a point of the axes that are not reduced."""

    sums: Nest
    known: tuple[Value, ...]
    rest: Nest | None


def stages_of(nest: Nest) -> Stages:
    """`sums` walks as its largest operand lies in memory, the rest as its results do."""
    known = known_later(nest)
    inside = [s for s in nest.stores if _inside(nest, s)]
    outside = [s for s in nest.stores if s not in inside]
    reduces = [v for v in nest.values if v.op == "reduce"]
    sums, values, axes = _copy(nest, [*reduces, *known], outside)
    cells = _walk_as_read(sums, {axes[a] for a in nest.reduced})
    back = {new: old for old, new in axes.items()}
    ordered = [back[a] for a in cells]
    merge(sums)
    rest = _copy(nest, (), inside, known, ordered)[0] if inside else None
    if rest is not None:
        rest.outer = sorted(rest.outer, key=rest.stores[0].stride_of, reverse=True)
    return Stages(sums, tuple(values[v] for v in known), rest)


def levels_of(nest: Nest) -> dict[Value, int]:
    """How many reductions, one after the other, a value waits for."""
    level: dict[Value, int] = {}
    for value in nest.values:
        level[value] = max((level[a] for a in value.args), default=0) + (value.op == "reduce")
    return level


def known_later(nest: Nest) -> list[Value]:
    """Values that are the same all along what is reduced, come from sums, and are read by a later kernel than makes them."""
    level, along, found = levels_of(nest), set(nest.reduced), set[Value]()

    def visit(roots: Iterable[Value], most: int) -> None:
        stack = list(roots)
        while stack:
            value = stack.pop()
            if 0 < level[value] <= most and value.kind == "float" and not value.axes & along:
                if value not in found:
                    found.add(value)
                    visit(value.args if value.op != "reduce" else (), level[value] - 1)
            elif value.op != "reduce":
                stack.extend(value.args)

    for value in nest.values:
        if value.op == "reduce":
            visit(value.args, level[value] - 1)
    for store in nest.stores:
        visit([store.value], level[store.value] if _inside(nest, store) else level[store.value] - 1)
    return [v for v in nest.values if v in found]


def _inside(nest: Nest, store: Store) -> bool:
    return any(a in nest.reduced for dim in store.dims for a in dim)


def _walk_as_read(nest: Nest, reduced: set[Axis]) -> list[Axis]:
    """Orders the loops by the largest operand that is reduced; the cells' axes, which number the cells row by row."""
    loads = [v for v in nest.values if v.op == "load" and v.axes & reduced]
    largest = max(loads, key=lambda v: math.prod(a.size for a in v.axes))
    order = sorted(nest.outer, key=largest.stride_of, reverse=True)
    fast = contiguous_axis(largest)
    nest.reduced = [a for a in order if a in reduced]
    cells = [a for a in order if a not in reduced]
    least = min(largest.stride_of(a) for a in nest.reduced if largest.stride_of(a) > 0)
    nest.kept = [a for a in cells if fast in cells and 0 < largest.stride_of(a) < least]
    nest.outer = [a for a in cells if a not in nest.kept]
    return [*nest.outer, *nest.kept]


def _copy(
    nest: Nest, roots: Iterable[Value], stores: Sequence[Store], known: Sequence[Value] = (), cells: Sequence[Axis] = ()
) -> tuple[Nest, dict[Value, Value], dict[Axis, Axis]]:
    """A nest of its own for some values and stores, with what became of values and axes. `known` values are loads, one number
    for each of the `cells`."""
    axes = {a: Axis(a.size) for a in (*nest.outer, *nest.reduced, *nest.kept)}

    def turned(dims: Dims) -> Dims:
        return tuple(tuple(axes[a] for a in dim) for dim in dims)

    needed: set[Value] = set()
    stack = [*roots, *(s.value for s in stores)]
    while stack:
        value = stack.pop()
        if value not in needed:
            needed.add(value)
            stack.extend(() if value in known else value.args)
    new: dict[Value, Value] = {}
    for value in nest.values:
        if value not in needed:
            continue
        if value in known:
            over = [a for a in cells if a in value.axes]
            strides = tuple(math.prod(c.size for c in cells[cells.index(a) + 1 :]) for a in over)
            made = Value("load", tuple((axes[a],) for a in over), tensor=f"{CELL}{known.index(value)}", strides=strides)
        else:
            made = Value(
                value.op, turned(value.dims), value.kind, value.fn, tuple(new[a] for a in value.args), value.number,
                value.tensor, value.strides, value.gather_dim, value.gather_stride, tuple(axes[a] for a in value.over),
                value.window,
            )  # fmt: skip
        made.axes = frozenset(axes[a] for a in value.axes)
        new[value] = made
    values = list(new.values())
    loads = list(dict.fromkeys(v.tensor for v in values if v.op in ("load", "gather")))
    written = [Store(s.name, new[s.value], turned(s.dims), s.strides) for s in stores]
    return Nest(nest.nodes, list(axes.values()), [], [], values, written, loads), new, axes
