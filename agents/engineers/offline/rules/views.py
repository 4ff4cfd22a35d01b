"""Operations that leave the numbers as they are and rename their axes."""

from __future__ import annotations

from typing import Any

from agents.engineers.offline.builder import Builder, argument
from agents.engineers.offline.graph import short
from agents.engineers.offline.ir import Axis, Dims, NotFusible, Value
from agents.engineers.offline.rules.registry import float_result, rule, source
from gpu_runner.contracts import GraphNode

MOST_PIECES = 6  # tensors that one kernel joins: each is looked for at every point


@rule("view", "reshape", "_unsafe_view", "flatten")
def _reshape(b: Builder, node: GraphNode) -> Value:
    x = _inside(b, node)
    old, new = b.view.spec(source(node)), node.out[0]
    if old is None or new is None:
        raise NotFusible("a view of something that is not one tensor")
    dims = b.reshape(x, old.shape, new.shape)
    return b.view_as(x, dims)


@rule("unsqueeze")
def _unsqueeze(b: Builder, node: GraphNode) -> Value:
    x = _inside(b, node)
    at = node.args[1] % (len(x.dims) + 1)
    return b.view_as(x, (*x.dims[:at], (), *x.dims[at:]))


@rule("squeeze")
def _squeeze(b: Builder, node: GraphNode) -> Value:
    x = _inside(b, node)
    spec = b.view.tensor(source(node))
    wanted = argument(node, 1, "dim")
    gone = b.positions(x, range(len(x.dims)) if wanted is None else [wanted] if isinstance(wanted, int) else wanted)
    return b.view_as(x, tuple(d for k, d in enumerate(x.dims) if not (k in gone and spec.shape[k] == 1)))


@rule("expand")
def _expand(b: Builder, node: GraphNode) -> Value:
    x = _inside(b, node)
    assert node.out[0] is not None
    extra = len(node.out[0].shape) - len(x.dims)
    return b.view_as(x, (*[()] * extra, *x.dims))


@rule("permute", "transpose", "t")
def _permute(b: Builder, node: GraphNode) -> Value:
    x = _inside(b, node)
    rank = len(x.dims)
    order = list(range(rank))
    name = short(node.target)
    if name == "permute":
        order = [d % rank for d in node.args[1]]
    elif name == "transpose":
        i, j = node.args[1] % rank, node.args[2] % rank
        order[i], order[j] = j, i
    elif rank == 2:
        order = [1, 0]
    return b.view_as(x, tuple(x.dims[k] for k in order))


@rule("clone", "contiguous", "detach", "alias", "relaid")
def _copy(b: Builder, node: GraphNode) -> Value:
    x = _inside(b, node)
    return b.view_as(x, x.dims)


@rule("cat")
def _cat(b: Builder, node: GraphNode) -> Value:
    """Tensors one after the other along a dimension: each is read where the position is its own, and chosen there."""
    float_result(node)
    spec = node.out[0]
    assert spec is not None
    at = argument(node, 1, "dim", 0) % len(spec.shape)
    given = [b.view.spec(str(a["ref"])) for a in node.args[0]]
    if len(given) > MOST_PIECES or any(s is None or len(s.shape) != len(spec.shape) for s in given):
        raise NotFusible("tensors that are joined in another way than one after the other")
    whole = Axis(spec.shape[at])
    dims: Dims = (*[()] * at, (whole,), *[()] * (len(spec.shape) - at - 1))
    place = Value("index", dims, "int", strides=tuple(int(k == at) for k in range(len(dims))))
    b.values.insert(0, place)
    pieces, first = [], 0
    for reference, part in zip(node.args[0], given, strict=True):
        assert part is not None
        value, size = b.get(reference), part.shape[at]
        if value.kind != "float":
            raise NotFusible("tensors of other dtypes than float32 that are joined")
        if size > 1:
            b.lengthen(value.dims[at], whole, first, size, place)
        pieces.append((first + size, value))
        first += size
    joined = pieces[-1][1]
    for end, value in reversed(pieces[:-1]):
        joined = b.call("piece", b.call("lt", place, b.const(end), kind="bool"), value, joined)
    return joined


@rule("dropout")
def _dropout(b: Builder, node: GraphNode) -> Value:
    if argument(node, 2, "train", True) and argument(node, 1, "p", 0.5) > 0:
        raise NotFusible("dropout that is switched on draws random numbers")
    x = _inside(b, node)
    return b.view_as(x, x.dims)


def _inside(b: Builder, node: GraphNode) -> Value:
    """The operand of a view. A view of an outside tensor is better left to PyTorch: it costs nothing there."""
    return b.get(node.args[0])


@rule("getitem")
def _getitem(b: Builder, node: GraphNode) -> Value:
    several = b.env.get(source(node))
    if not isinstance(several, tuple):
        raise NotFusible("picks one of several outside tensors")
    value: Any = several[node.args[1]]
    if value is None:
        raise NotFusible("picks a result that is not computed")
    return b.view_as(value, value.dims)
