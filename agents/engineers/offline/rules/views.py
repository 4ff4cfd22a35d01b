"""Operations that leave the numbers as they are and rename their axes."""

from __future__ import annotations

from typing import Any

from agents.engineers.offline.builder import Builder, argument
from agents.engineers.offline.graph import short
from agents.engineers.offline.ir import NotFusible, Value
from agents.engineers.offline.rules.registry import rule, source
from gpu_runner.contracts import GraphNode


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
