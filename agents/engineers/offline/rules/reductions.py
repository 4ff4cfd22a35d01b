"""Reductions, normalisations, softmax and losses, and loads that are addressed by data."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from agents.engineers.offline.builder import Builder, argument
from agents.engineers.offline.graph import short
from agents.engineers.offline.ir import Axis, NotFusible, Value
from agents.engineers.offline.rules.registry import float_result, rule, source
from gpu_runner.contracts import GraphNode


def _dims(x: Value, given: Any) -> list[int]:
    if given is None or given == []:
        return list(range(len(x.dims)))
    return [given] if isinstance(given, int) else list(given)


@rule("sum", "amax", "amin")
def _reduction(b: Builder, node: GraphNode) -> Value:
    float_result(node)
    x = b.as_float(b.get(node.args[0]))
    name = {"sum": "sum", "amax": "max", "amin": "min"}[short(node.target)]
    return b.reduce(name, x, _dims(x, argument(node, 1, "dim")), bool(argument(node, 2, "keepdim", False)))


@rule("mean")
def _mean(b: Builder, node: GraphNode) -> Value:
    float_result(node)
    x = b.as_float(b.get(node.args[0]))
    dims = _dims(x, argument(node, 1, "dim"))
    total = b.reduce("sum", x, dims, bool(argument(node, 2, "keepdim", False)))
    return b.call("div", total, float(b.count(x, dims)))


@rule("matmul", "bmm")
def _vector_times_matrix(b: Builder, node: GraphNode) -> Value:
    """A product with one row or one column: a pointwise product and a sum, which fuses with what made the matrix."""
    left, right = (b.view.spec(str(a["ref"])) for a in node.args[:2])
    if left is None or right is None or min(len(left.shape), len(right.shape)) < 2:
        raise NotFusible("a product of vectors")
    x, y = b.get(node.args[0]), b.get(node.args[1])
    if left.shape[-2] == 1:
        product = b.call("mul", b.view_as(x, (*x.dims[:-2], x.dims[-1], ())), y)
        return b.reduce("sum", product, [-2])
    if right.shape[-1] == 1:
        product = b.call("mul", x, b.view_as(y, (*y.dims[:-2], (), y.dims[-2])))
        return b.reduce("sum", product, [-1])
    raise NotFusible("a product of two matrices")


@rule("adaptive_avg_pool2d", "adaptive_avg_pool1d")
def _global_average(b: Builder, node: GraphNode) -> Value:
    size = node.args[1]
    if any(n != 1 for n in size):
        raise NotFusible("pooling to more than one element")
    x = b.get(node.args[0])
    dims = [-1 - k for k in range(len(size))]
    return b.call("div", b.reduce("sum", x, dims), float(b.count(x, dims)))


@rule(*(f"{how}_pool{rank}d" for how in ("max", "avg") for rank in (1, 2, 3)))
def _pool(b: Builder, node: GraphNode) -> Value:
    """Windows that lie side by side and fill the tensor: each dimension is cut into windows, which are reduced."""
    float_result(node)
    how, rank = short(node.target)[:3], int(short(node.target)[-2])
    window, step, padding = (_each(argument(node, k, "", 0), rank) for k in (1, 2, 3))
    dilation = _each(argument(node, 4, "", 1), rank) if how == "max" else [1] * rank
    shape = list(b.view.tensor(source(node)).shape)
    whole = all(n % w == 0 for n, w in zip(shape[-rank:], window, strict=True))
    if step not in (window, [0] * rank) or any(padding) or dilation != [1] * rank or not whole:
        raise NotFusible("pooling over windows that overlap, leave gaps or reach over an edge")
    if node.kwargs or (how == "avg" and argument(node, 6, "") is not None):
        raise NotFusible("pooling with a divisor of its own")
    x = b.get(node.args[0])
    cut = [n for size, w in zip(shape[-rank:], window, strict=True) for n in (size // w, w)]
    tiles = b.view_as(x, b.reshape(x, shape, [*shape[:-rank], *cut]))
    dims = [len(tiles.dims) - 1 - 2 * k for k in range(rank)]
    reduced = b.reduce("max" if how == "max" else "sum", tiles, dims, keep=False)
    return reduced if how == "max" else b.call("div", reduced, float(math.prod(window)))


def _each(value: Any, rank: int) -> list[int]:
    """One number for each dimension: given for each, for all, or (an empty list) left at 0."""
    given = [value] if isinstance(value, int) else list(value or [0])
    return given * rank if len(given) == 1 else given


def _moments(b: Builder, x: Value, dims: list[int], correction: float = 0) -> tuple[Value, Value]:
    """Mean and variance in two passes, which loses no digits when the mean is large. The row is in cache by then."""
    n = b.count(x, dims)
    mean = b.call("div", b.reduce("sum", x, dims), float(n))
    variance = b.call("div", b.reduce("sum", b.call("square", b.call("sub", x, mean)), dims), float(max(n - correction, 0)))
    return mean, variance


@rule("var", "std")
def _variance(b: Builder, node: GraphNode) -> Value:
    x = b.get(node.args[0])
    given = node.kwargs.get("correction", 1)
    dims = _dims(x, argument(node, 1, "dim"))
    _, variance = _moments(b, x, dims, 1 if given is None else float(given))
    if short(node.target) == "std":
        variance = b.call("sqrt", variance)
    if node.kwargs.get("keepdim", False):
        return variance
    gone = b.positions(x, dims)
    return b.view_as(variance, tuple(d for k, d in enumerate(variance.dims) if k not in gone))


def _affine(b: Builder, x: Value, weight: Any, bias: Any, dims: Callable[[Value], Value]) -> Value:
    if weight is not None:
        x = b.call("mul", x, dims(b.get(weight)))
    if bias is not None:
        x = b.call("add", x, dims(b.get(bias)))
    return x


@rule("layer_norm")
def _layer_norm(b: Builder, node: GraphNode) -> Value:
    x = b.get(node.args[0])
    dims = [-1 - k for k in range(len(node.args[1]))]
    mean, variance = _moments(b, x, dims)
    scale = b.call("rsqrt", b.call("add", variance, float(argument(node, 4, "eps", 1e-5))))
    y = b.call("mul", b.call("sub", x, mean), scale)
    return _affine(b, y, argument(node, 2, "weight"), argument(node, 3, "bias"), lambda w: w)


@rule("rms_norm")
def _rms_norm(b: Builder, node: GraphNode) -> Value:
    x = b.get(node.args[0])
    dims = [-1 - k for k in range(len(node.args[1]))]
    eps = argument(node, 3, "eps")
    mean = b.call("div", b.reduce("sum", b.call("square", x), dims), float(b.count(x, dims)))
    scale = b.call("rsqrt", b.call("add", mean, float(eps if eps is not None else 1.1920928955078125e-07)))
    return _affine(b, b.call("mul", x, scale), argument(node, 2, "weight"), None, lambda w: w)


@rule("group_norm")
def _group_norm(b: Builder, node: GraphNode) -> Value:
    """x is [N, C, *]; the channel dimension is cut into groups × channels of a group, and the latter reduced with space."""
    x = b.get(node.args[0])
    spec = b.view.tensor(source(node))
    groups = int(node.args[1])
    shape = list(spec.shape)
    grouped = b.view_as(x, b.reshape(x, shape, [shape[0], groups, shape[1] // groups, *shape[2:]]))
    dims = list(range(2, len(grouped.dims)))
    mean, variance = _moments(b, grouped, dims)
    scale = b.call("rsqrt", b.call("add", variance, float(argument(node, 4, "eps", 1e-5))))
    y = b.call("mul", b.call("sub", grouped, mean), scale)
    flat = b.view_as(y, (y.dims[0], (*y.dims[1], *y.dims[2]), *y.dims[3:]))
    return _affine(b, flat, argument(node, 2, "weight"), argument(node, 3, "bias"), lambda w: _per_channel(b, w, len(shape)))


@rule("instance_norm")
def _instance_norm(b: Builder, node: GraphNode) -> Value:
    """x is [N, C, *], and every channel of every image has its own statistics."""
    x = b.get(node.args[0])
    rank = len(x.dims)
    weight, bias, running_mean, _, from_input, _, eps = node.args[1:8]
    if not from_input or running_mean is not None:
        raise NotFusible("instance norm with running statistics")
    mean, variance = _moments(b, x, list(range(2, rank)))
    y = b.call("mul", b.call("sub", x, mean), b.call("rsqrt", b.call("add", variance, float(eps))))
    return _affine(b, y, weight, bias, lambda w: _per_channel(b, w, rank))


def _per_channel(b: Builder, w: Value, rank: int) -> Value:
    """A vector over channels, lined up with dimension 1 of a tensor of `rank` dimensions."""
    return b.view_as(w, (*w.dims, *[()] * (rank - 2)))


@rule("_native_batch_norm_legit_no_training")
def _batch_norm_eval(b: Builder, node: GraphNode) -> tuple[Value | None, ...]:
    x = b.get(node.args[0])
    rank = len(x.dims)
    weight, bias, mean, variance = node.args[1:5]
    scale = b.call("rsqrt", b.call("add", b.get(variance), float(node.args[6])))
    if weight is not None:
        scale = b.call("mul", scale, b.get(weight))
    y = b.call("sub", x, _per_channel(b, b.get(mean), rank))
    y = b.call("mul", y, _per_channel(b, scale, rank))
    if bias is not None:
        y = b.call("add", y, _per_channel(b, b.get(bias), rank))
    return (y, None, None)


@rule("_native_batch_norm_legit_functional")
def _batch_norm_train(b: Builder, node: GraphNode) -> tuple[Value | None, ...]:
    """Batch statistics, and the running ones moved by `momentum`; the running variance takes the unbiased estimate."""
    x = b.get(node.args[0])
    rank = len(x.dims)
    weight, bias, running_mean, running_var, training, momentum, eps = node.args[1:8]
    if not training:
        raise NotFusible("batch norm in its functional form, not training")
    dims = [0, *range(2, rank)]
    n = b.count(x, dims)
    mean, variance = _moments(b, x, dims)
    scale = b.call("rsqrt", b.call("add", variance, float(eps)))
    y = b.call("mul", b.call("sub", x, mean), scale)
    y = _affine(b, y, weight, bias, lambda w: _per_channel(b, w, rank))
    flat = (mean.dims[1],)
    unbiased = b.call("mul", b.view_as(variance, flat), n / max(n - 1, 1))

    def moved(old: Any, new: Value) -> Value:
        return b.call("add", b.call("mul", b.get(old), 1.0 - momentum), b.call("mul", new, float(momentum)))

    kept = (b.view_as(mean, flat), b.view_as(scale, flat))
    return (y, *kept, moved(running_mean, kept[0]), moved(running_var, unbiased))


@rule("normalised")
def _normalised(b: Builder, node: GraphNode) -> Value:
    """What a BatchNorm makes with the mean and the scale of each channel, after a bias that was not yet added."""
    x = b.get(node.args[0])
    rank = len(x.dims)
    mean, scale, weight, bias, before = node.args[1:6]
    if before is not None:
        x = b.call("add", x, b.get(before))
    y = b.call("mul", b.call("sub", x, _per_channel(b, b.get(mean), rank)), _per_channel(b, b.get(scale), rank))
    return _affine(b, y, weight, bias, lambda w: _per_channel(b, w, rank))


@rule("softmax", "_softmax")
def _softmax(b: Builder, node: GraphNode) -> Value:
    float_result(node)
    x = b.get(node.args[0])
    dim = [node.args[1]]
    e = b.call("exp", b.call("sub", x, b.reduce("top", x, dim)))
    return b.call("mul", e, b.call("reciprocal", b.reduce("sum", e, dim)))


@rule("log_softmax", "_log_softmax")
def _log_softmax(b: Builder, node: GraphNode) -> Value:
    float_result(node)
    x = b.get(node.args[0])
    dim = [node.args[1]]
    shifted = b.call("sub", x, b.reduce("top", x, dim))
    return b.call("sub", shifted, b.call("log", b.reduce("sum", b.call("exp", shifted), dim)))


def _log_sum_exp(b: Builder, x: Value, dims: list[int]) -> Value:
    """Kept dimensions. A row of -inf alone gives -inf, as in PyTorch, because its maximum is not subtracted."""
    top = b.call("finite_or_zero", b.reduce("top", x, dims))
    return b.call("add", b.call("log", b.reduce("sum", b.call("exp", b.call("sub", x, top)), dims)), top)


@rule("logsumexp")
def _logsumexp(b: Builder, node: GraphNode) -> Value:
    x = b.get(node.args[0])
    dims = _dims(x, node.args[1])
    y = _log_sum_exp(b, x, dims)
    if argument(node, 2, "keepdim", False):
        return y
    gone = b.positions(x, dims)
    return b.view_as(y, tuple(d for k, d in enumerate(y.dims) if k not in gone))


@rule("linalg_vector_norm")
def _vector_norm(b: Builder, node: GraphNode) -> Value:
    float_result(node)
    if argument(node, 1, "ord", 2) != 2:
        raise NotFusible("a norm other than the Euclidean one")
    x = b.get(node.args[0])
    dims = _dims(x, argument(node, 2, "dim"))
    return b.call("sqrt", b.reduce("sum", b.call("square", x), dims, bool(argument(node, 3, "keepdim", False))))


@rule("embedding")
def _embedding(b: Builder, node: GraphNode) -> Value:
    """Rows of a table picked by ids: a load whose first dimension is addressed by another value."""
    name = source(node)
    table, ids = b.view.spec(name), b.get(node.args[1])
    if table is None or table.dtype != "float32" or ids.kind != "int":
        raise NotFusible("an embedding of other dtypes than float32 by int64")
    width = Axis(table.shape[1])
    return b.add(
        Value("gather", (*ids.dims, (width,)), args=(ids,), tensor=name, gather_dim=table.shape[0],
              gather_stride=table.stride[0], strides=(*[0] * len(ids.dims), table.stride[1]))
    )  # fmt: skip


def _reduced(b: Builder, x: Value, how: Any) -> Value:
    """A loss in PyTorch's three forms: 0 as it is, 1 its mean, 2 its sum."""
    if how == 0:
        return x
    dims = list(range(len(x.dims)))
    total = b.reduce("sum", x, dims, False)
    return b.call("div", total, float(b.count(x, dims))) if how == 1 else total


@rule("binary_cross_entropy_with_logits")
def _binary_cross_entropy(b: Builder, node: GraphNode) -> Value:
    """(1 - t) x - log σ(x), with the logarithm as PyTorch has it: of no large exponential."""
    float_result(node)
    x, target = (b.as_float(b.get(a)) for a in node.args[:2])
    if argument(node, 2, "weight") is not None or argument(node, 3, "pos_weight") is not None:
        raise NotFusible("a binary cross-entropy with weights")
    tail = b.call("log1p", b.call("exp", b.call("neg", b.call("abs", x))))
    log_sigmoid = b.call("sub", b.call("minimum", x, 0.0), tail)
    loss = b.call("sub", b.call("mul", b.call("sub", b.const(1.0), target), x), log_sigmoid)
    return _reduced(b, loss, argument(node, 4, "reduction", 1))


@rule("mse_loss", "l1_loss")
def _distance(b: Builder, node: GraphNode) -> Value:
    float_result(node)
    apart = b.call("sub", *(b.as_float(b.get(a)) for a in node.args[:2]))
    return _reduced(
        b, b.call("square" if short(node.target) == "mse_loss" else "abs", apart), argument(node, 2, "reduction", 1)
    )


@rule("smooth_l1_loss", "huber_loss")
def _huber(b: Builder, node: GraphNode) -> Value:
    """Quadratic up to `beta` (huber: `delta`), linear beyond; the two differ by that factor."""
    float_result(node)
    smooth = short(node.target) == "smooth_l1_loss"
    edge = float(argument(node, 3, "beta" if smooth else "delta", 1.0))
    if edge <= 0.0:
        raise NotFusible("a smooth distance without a quadratic part")
    far = b.call("abs", b.call("sub", *(b.as_float(b.get(a)) for a in node.args[:2])))
    near = b.call("mul", b.call("square", far), 0.5 / edge if smooth else 0.5)
    linear = b.call("sub", far, 0.5 * edge) if smooth else b.call("mul", b.call("sub", far, 0.5 * edge), edge)
    return _reduced(b, b.call("where", b.call("lt", far, edge, kind="bool"), near, linear), argument(node, 2, "reduction", 1))


@rule("cross_entropy_loss")
def _cross_entropy(b: Builder, node: GraphNode) -> Value:
    """logits [rows, classes], targets [rows] of int64, the mean over rows. Ignored rows count neither above nor below."""
    weight, reduction = argument(node, 2, "weight"), argument(node, 3, "reduction", 1)
    ignore, smoothing = argument(node, 4, "ignore_index", -100), argument(node, 5, "label_smoothing", 0.0)
    x, target = b.get(node.args[0]), b.get(node.args[1])
    if weight is not None or reduction != 1 or smoothing or len(x.dims) != 2 or target.kind != "int" or x.op != "load":
        raise NotFusible("a cross-entropy of another form than the mean over rows of logits")
    spec = b.view.tensor(source(node))
    lse = _log_sum_exp(b, x, [1])
    b.match(x.dims[0], target.dims[0])
    picked = b.add(Value("gather", target.dims, args=(target,), tensor=x.tensor, gather_dim=spec.shape[1],
                         gather_stride=spec.stride[1], strides=(spec.stride[0],)))  # fmt: skip
    ignored = b.call("eq", target, b.const(int(ignore)), kind="bool")
    loss = b.call("where", ignored, 0.0, b.call("sub", b.view_as(lse, target.dims), picked))
    counted = b.call("where", ignored, 0.0, 1.0)
    return b.call("div", b.reduce("sum", loss, [0], False), b.reduce("sum", counted, [0], False))
