"""From a group of nodes to one loop nest: lower them, see which axes are reduced, and decide the order of the loops."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from agents.engineers.offline.builder import Builder
from agents.engineers.offline.graph import View, is_dense
from agents.engineers.offline.ir import ACCUMULATOR, Axis, Nest, NotFusible, Store, Value
from agents.engineers.offline.rules import lower

MAX_KEPT = 4096  # partial results per outer step: 16 kB of float32, half of an L1 cache
CHUNK = 64  # vector work per step when a long innermost axis is cut to have something to run in parallel


def make_nest(
    view: View, nodes: Iterable[str], seed: Callable[[Builder], None] | None = None, columns: int | None = None
) -> Nest:
    """One kernel out of `nodes`, or NotFusible with the reason.

    `seed` may put values of some nodes into the builder beforehand: what a matrix product has computed, for its epilogue.
    `columns`: without reductions, as many points of the fastest axes form the vector loop (as far as they divide it).
    """
    names = view.order(nodes)
    group = set(names)
    builder = Builder(view)
    if seed is not None:
        seed(builder)
    for name in names:
        if name not in builder.env:
            lower(builder, view.nodes[name])
    stores = _stores(view, builder, names, group)
    values = _alive(_shared(builder.values, stores), stores)
    _refuse_parts(values, stores)
    _axes_of(values)
    reduces = [v for v in values if v.op == "reduce"]
    tails = _tails(values)
    main = [v for v in reduces if v not in tails]
    for other in main[1:]:
        builder.match(main[0].over, other.over)
    _axes_of(values)
    reduced = set(main[0].over) if main else set()
    if any(set(v.over) != reduced for v in main):
        raise NotFusible("two reductions run over different axes")
    everything = {a for v in values for a in v.axes} | {a for s in stores for dim in s.dims for a in dim}
    order = _order(values, stores, everything)
    outer = _outer(builder, values, stores, main, reduced, order, columns)
    _axes_of(values)
    everything = {a for v in values for a in v.axes} | {a for s in stores for dim in s.dims for a in dim}
    order = _order(values, stores, everything)
    reduced = set(main[0].over) if main else set()
    kept = [a for a in order if a not in reduced and a not in outer]
    nest = Nest(
        nodes=tuple(names),
        outer=[a for a in order if a in outer],
        reduced=[a for a in order if a in reduced],
        kept=kept,
        values=values,
        stores=stores,
        loads=list(dict.fromkeys(v.tensor for v in values if v.op in ("load", "gather"))),
    )
    merge(nest)
    for value in main:
        if math.prod(a.size for a in value.axes if a in nest.kept) > MAX_KEPT:
            raise NotFusible("a reduction keeps too many partial results")
    if not nest.loads:
        raise NotFusible("nothing is read")
    return nest


def tail_reductions(nest: Nest) -> list[Value]:
    """Reductions to one number that nothing but other single numbers uses: summed across threads after the loops."""
    return _tails(nest.values)


def _tails(values: list[Value]) -> list[Value]:
    users: dict[Value, list[Value]] = {}
    for value in values:
        for operand in value.args:
            users.setdefault(operand, []).append(value)

    def scalar(value: Value) -> bool:
        return not value.axes and all(scalar(user) for user in users.get(value, []))

    return [v for v in values if v.op == "reduce" and scalar(v)]


def _stores(view: View, builder: Builder, names: list[str], group: set[str]) -> list[Store]:
    stores = []
    for name in names:
        if not view.used_outside(name, group):
            continue
        value, spec = builder.env[name], view.spec(name)
        if isinstance(value, tuple):
            if all(view.nodes[user].target == "getitem" and user in group for user in view.users[name]):
                continue
            raise NotFusible(f"{name} is several tensors that leave the kernel together")
        if spec is None or not is_dense(spec) or spec.dtype not in ("float32", "bool"):
            raise NotFusible(f"{name} leaves the kernel in a form that is not a dense float32 or bool tensor")
        dims = []
        for dim, size in zip(value.dims, spec.shape, strict=True):
            if not dim and size > 1:
                raise NotFusible(f"{name} leaves the kernel expanded")
            dims.append(dim)
        builder.values.append(value)  # keeps the axes of a store in step with splits; removed by _alive
        stores.append(Store(name, value, tuple(dims), spec.stride))
    if not stores:
        raise NotFusible("nothing leaves the kernel")
    for store in stores:
        store.dims = store.value.dims
    return stores


def _shared(values: list[Value], stores: list[Store]) -> list[Value]:
    """The values with equal expressions made one, so that nothing is computed twice in a pass."""
    seen: dict[tuple[object, ...], Value] = {}
    instead: dict[Value, Value] = {}
    kept = []
    for value in values:
        if value in instead:
            continue
        value.args = tuple(instead[a] for a in value.args)
        key = (
            value.op,
            value.fn,
            value.kind,
            value.args,
            repr(value.number),
            value.tensor,
            value.dims,
            value.over,
            value.strides,
            value.window,
        )
        instead[value] = seen.setdefault(key, value)
        if instead[value] is value:
            kept.append(value)
    for store in stores:
        store.value = instead[store.value]
    return kept


def _alive(values: list[Value], stores: list[Store]) -> list[Value]:
    needed: set[int] = set()
    stack = [s.value for s in stores]
    while stack:
        value = stack.pop()
        if id(value) not in needed:
            needed.add(id(value))
            stack.extend(value.args)
    alive, seen = [], set()
    for value in values:
        if id(value) in needed and id(value) not in seen:
            seen.add(id(value))
            alive.append(value)
    return alive


def _refuse_parts(values: list[Value], stores: list[Store]) -> None:
    """What was made longer to be joined with others is of use for that alone: beside its own part it is nothing."""
    parts: set[Value] = set()
    for value in values:
        if value.window is not None or (value.fn != "piece" and any(a in parts for a in value.args)):
            if value.op == "reduce":
                raise NotFusible("a sum over a tensor that is joined with others, too")
            parts.add(value)
    if any(store.value in parts for store in stores):
        raise NotFusible("a tensor leaves the kernel and is joined with others, too")


def _axes_of(values: list[Value]) -> None:
    for value in values:
        if value.op in ("load", "index", "gather"):
            value.axes = frozenset(a for dim in value.dims for a in dim)
        else:
            value.axes = frozenset(a for operand in value.args for a in operand.axes) - frozenset(value.over)


def _order(values: list[Value], stores: list[Store], everything: set[Axis]) -> list[Axis]:
    """Axes from the slowest in memory to the fastest, as the sums of a product come, else as the largest tensors have them."""
    order: list[Axis] = []
    tensors: list[Value | Store] = [*stores, *(v for v in values if v.op in ("load", "gather"))]
    tensors.sort(key=lambda t: -math.prod(a.size for dim in t.dims for a in dim))
    tensors.sort(key=lambda t: not (isinstance(t, Value) and t.tensor == ACCUMULATOR))
    for tensor in tensors:
        axes = [a for dim in tensor.dims for a in dim if a in everything and a not in order]
        axes.sort(key=tensor.stride_of, reverse=True)
        order += axes
    return order


def _outer(
    builder: Builder,
    values: list[Value],
    stores: list[Store],
    main: list[Value],
    reduced: set[Axis],
    order: list[Axis],
    columns: int | None,
) -> set[Axis]:
    """Axes that run in parallel. Every reduction's result varies along each of them, so that none is computed twice."""
    if not order:
        return set()
    if not main:
        if len(order) == 1 and columns is None:
            return set()
        kept = 1
        while columns is not None and kept < len(order) and math.prod(a.size for a in order[-kept:]) < columns:
            kept += 1
        return set(order[:-kept])
    outer = {a for a in order if all(a in v.axes for v in main)}
    fastest = order[-1]
    if fastest in outer and order[-1].size >= 4:
        # The innermost axis in memory is not the one that is reduced: keep it as a vector of partial results.
        outer.discard(fastest)
        parallel = math.prod(a.size for a in outer)
        if fastest.size > CHUNK and fastest.size % CHUNK == 0 and parallel < 8:
            front, _ = builder.split(fastest, fastest.size // CHUNK)
            for store in stores:
                store.dims = store.value.dims
            outer.add(front)
    return outer


def merge(nest: Nest) -> None:
    """Join neighbouring axes of a class that every tensor walks through as one, for fewer and longer loops."""
    tensors: list[Value | Store] = [*nest.stores, *(v for v in nest.values if v.op in ("load", "index", "gather"))]
    for store in nest.stores:
        store.dims = store.value.dims
    for axes in (nest.outer, nest.reduced, nest.kept):
        k = 0
        while k + 1 < len(axes):
            slow, fast = axes[k], axes[k + 1]
            same_uses = all((slow in v.axes) == (fast in v.axes) for v in nest.values)
            if same_uses and all(t.stride_of(slow) == t.stride_of(fast) * fast.size for t in tensors):
                _join(nest, slow, fast)
                axes.pop(k + 1)
            else:
                k += 1


def _join(nest: Nest, slow: Axis, fast: Axis) -> None:
    """Let `slow` run over both. Its stride in a tensor becomes that of `fast`, which `dims` say by leaving `slow` last."""
    items: list[Value | Store] = [*nest.values, *nest.stores]
    for item in items:
        dims: list[tuple[Axis, ...]] = []
        for dim in item.dims:
            if fast in dim:
                dims.append(tuple(slow if a is fast else a for a in dim if a is not slow))
            else:
                dims.append(tuple(a for a in dim if a is not slow))
        item.dims = tuple(dims)
        if isinstance(item, Value):
            item.axes = item.axes - {fast}
            item.over = tuple(a for a in item.over if a is not fast)
    slow.size *= fast.size
