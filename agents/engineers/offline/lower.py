"""ATen operations in terms of the little language: one short function each, found by the operation's name.

An operation without a rule is not fusible and stays with PyTorch. Rules keep PyTorch's semantics on NaN and infinity; what
they may change is the order of floating-point sums.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agents.engineers.offline.builder import Builder, argument
from agents.engineers.offline.graph import short
from agents.engineers.offline.ir import Axis, NotFusible, Value
from gpu_runner.contracts import GraphNode

Rule = Callable[[Builder, GraphNode], "Value | tuple[Value | None, ...]"]
RULES: dict[str, Rule] = {}
VIEWS = frozenset(
    {"view", "reshape", "_unsafe_view", "flatten", "unsqueeze", "squeeze", "expand", "permute", "transpose", "t", "clone",
     "contiguous", "detach", "alias", "dropout", "_to_copy"}
)  # fmt: skip


def rule(*names: str) -> Callable[[Rule], Rule]:
    def keep(function: Rule) -> Rule:
        for name in names:
            RULES[name] = function
        return function

    return keep


def lower(b: Builder, node: GraphNode) -> None:
    """Add one node to the builder. Raises NotFusible."""
    name = "getitem" if node.target == "getitem" else short(node.target)
    if name not in RULES:
        raise NotFusible(f"there is no rule for {node.target}")
    b.line = node.line
    for spec in node.out:
        if spec is not None and spec.dtype not in ("float32", "bool", "int64"):
            raise NotFusible(f"{node.name} has the dtype {spec.dtype}")
    result = RULES[name](b, node)
    b.env[node.name] = result  # type: ignore[assignment]


# Pointwise: one C++ expression of `emit.expressions`

_UNARY = [
    "relu",
    "exp",
    "log",
    "log1p",
    "expm1",
    "sqrt",
    "rsqrt",
    "neg",
    "abs",
    "sigmoid",
    "silu",
    "tanh",
    "erf",
    "reciprocal",
    "square",
    "hardsigmoid",
    "hardswish",
    "mish",
    "softsign",
    "relu6",
    "floor",
    "ceil",
]
_BINARY = ["mul", "div", "maximum", "minimum"]
_COMPARE = ["eq", "ne", "lt", "le", "gt", "ge"]


def _unary(b: Builder, node: GraphNode) -> Value:
    x = b.get(node.args[0])
    if x.kind != "float":
        raise NotFusible(f"{node.target} of a tensor that is not float32")
    return b.call(short(node.target), x)


for _name in _UNARY:
    RULES[_name] = _unary


def _float_result(node: GraphNode) -> None:
    if node.out[0] is None or node.out[0].dtype != "float32":
        raise NotFusible(f"{node.target} with a result that is not float32")


def _binary(b: Builder, node: GraphNode) -> Value:
    _float_result(node)
    if argument(node, 2, "rounding_mode") is not None:
        raise NotFusible("division with rounding")
    x, y = (b.as_float(b.get(a)) for a in node.args[:2])
    return b.call(short(node.target), x, y)


for _name in _BINARY:
    RULES[_name] = _binary


def _compare(b: Builder, node: GraphNode) -> Value:
    x, y = (b.get(a) for a in node.args[:2])
    if x.kind != y.kind:
        x, y = b.as_float(x), b.as_float(y)
    return b.call(short(node.target), x, y, kind="bool")


for _name in _COMPARE:
    RULES[_name] = _compare


@rule("add", "sub", "rsub")
def _sum_of_two(b: Builder, node: GraphNode) -> Value:
    _float_result(node)
    alpha = argument(node, 2, "alpha", 1)
    x, y = (b.as_float(b.get(a)) for a in node.args[:2])
    name = short(node.target)
    if name == "rsub":
        x, y = y, x
        if alpha != 1:
            y = b.call("mul", y, float(alpha))
        return b.call("sub", x, y)
    if alpha != 1:
        y = b.call("mul", y, float(alpha))
    return b.call(name, x, y)


@rule("gelu")
def _gelu(b: Builder, node: GraphNode) -> Value:
    tanh = argument(node, 1, "approximate", "none") == "tanh"
    return b.call("gelu_tanh" if tanh else "gelu", b.get(node.args[0]))


@rule("leaky_relu")
def _leaky_relu(b: Builder, node: GraphNode) -> Value:
    return b.call("leaky_relu", b.get(node.args[0]), float(argument(node, 1, "negative_slope", 0.01)))


@rule("elu")
def _elu(b: Builder, node: GraphNode) -> Value:
    if argument(node, 2, "scale", 1) != 1 or argument(node, 3, "input_scale", 1) != 1:
        raise NotFusible("elu with a scale")
    return b.call("elu", b.get(node.args[0]), float(argument(node, 1, "alpha", 1.0)))


@rule("softplus")
def _softplus(b: Builder, node: GraphNode) -> Value:
    return b.call(
        "softplus", b.get(node.args[0]), float(argument(node, 1, "beta", 1)), float(argument(node, 2, "threshold", 20))
    )


@rule("clamp", "hardtanh", "clamp_min", "clamp_max")
def _clamp(b: Builder, node: GraphNode) -> Value:
    _float_result(node)
    name = short(node.target)
    x = b.get(node.args[0])
    low, high = argument(node, 1, "min"), argument(node, 2, "max")
    if name == "hardtanh":
        low, high = argument(node, 1, "min_val", -1.0), argument(node, 2, "max_val", 1.0)
    if name == "clamp_max":
        low, high = None, argument(node, 1, "max")
    if low is not None:
        x = b.call("clamp_low", x, b.as_float(b.get(low)))
    if high is not None:
        x = b.call("clamp_high", x, b.as_float(b.get(high)))
    return x


@rule("pow")
def _pow(b: Builder, node: GraphNode) -> Value:
    _float_result(node)
    exponent = argument(node, 1, "exponent")
    if isinstance(exponent, bool) or not isinstance(exponent, (int, float)):
        raise NotFusible("a power with a tensor as exponent")
    x = b.get(node.args[0])
    special = {0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal", 1: "same", 2: "square"}
    if exponent in special:
        return b.call(special[exponent], x)
    if float(exponent).is_integer() and 3 <= exponent <= 8:
        square = b.call("square", x)
        result = square if exponent % 2 == 0 else b.call("mul", square, x)
        for _ in range(int(exponent) // 2 - 1):
            result = b.call("mul", result, square)
        return result
    return b.call("pow", x, float(exponent))


@rule("where")
def _where(b: Builder, node: GraphNode) -> Value:
    _float_result(node)
    return b.call("where", b.get(node.args[0]), b.as_float(b.get(node.args[1])), b.as_float(b.get(node.args[2])))


@rule("masked_fill")
def _masked_fill(b: Builder, node: GraphNode) -> Value:
    _float_result(node)
    return b.call("where", b.get(node.args[1]), b.as_float(b.get(node.args[2])), b.get(node.args[0]))


@rule("logical_not", "bitwise_not")
def _not(b: Builder, node: GraphNode) -> Value:
    x = b.get(node.args[0])
    if x.kind != "bool":
        raise NotFusible("not of a tensor that is not bool")
    return b.call("not", x, kind="bool")


@rule("logical_and", "logical_or", "bitwise_and", "bitwise_or")
def _logic(b: Builder, node: GraphNode) -> Value:
    x, y = (b.get(a) for a in node.args[:2])
    if x.kind != "bool" or y.kind != "bool":
        raise NotFusible("logic on tensors that are not bool")
    return b.call(short(node.target).split("_")[1], x, y, kind="bool")


@rule("_to_copy")
def _to_copy(b: Builder, node: GraphNode) -> Value:
    _float_result(node)
    x = b.get(node.args[0])
    return b.as_float(x) if x.kind != "float" else b.call("same", x)


# Views: the same numbers, other axes


@rule("view", "reshape", "_unsafe_view", "flatten")
def _reshape(b: Builder, node: GraphNode) -> Value:
    x = _inside(b, node)
    old, new = b.view.spec(_source(node)), node.out[0]
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
    spec = b.view.spec(_source(node))
    assert spec is not None
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


@rule("clone", "contiguous", "detach", "alias")
def _copy(b: Builder, node: GraphNode) -> Value:
    x = _inside(b, node)
    return b.view_as(x, x.dims)


@rule("dropout")
def _dropout(b: Builder, node: GraphNode) -> Value:
    if argument(node, 2, "train", True) and argument(node, 1, "p", 0.5) > 0:
        raise NotFusible("dropout that is switched on draws random numbers")
    x = _inside(b, node)
    return b.view_as(x, x.dims)


def _source(node: GraphNode) -> str:
    return str(node.args[0]["ref"])


def _inside(b: Builder, node: GraphNode) -> Value:
    """The operand of a view. A view of an outside tensor is better left to PyTorch: it costs nothing there."""
    return b.get(node.args[0])


@rule("getitem")
def _getitem(b: Builder, node: GraphNode) -> Value:
    several = b.env.get(_source(node))
    if not isinstance(several, tuple):
        raise NotFusible("picks one of several outside tensors")
    value: Any = several[node.args[1]]
    if value is None:
        raise NotFusible("picks a result that is not computed")
    return b.view_as(value, value.dims)


# Reductions and what is made of them


def _dims(x: Value, given: Any) -> list[int]:
    if given is None or given == []:
        return list(range(len(x.dims)))
    return [given] if isinstance(given, int) else list(given)


@rule("sum", "amax", "amin")
def _reduction(b: Builder, node: GraphNode) -> Value:
    _float_result(node)
    x = b.as_float(b.get(node.args[0]))
    name = {"sum": "sum", "amax": "max", "amin": "min"}[short(node.target)]
    return b.reduce(name, x, _dims(x, argument(node, 1, "dim")), bool(argument(node, 2, "keepdim", False)))


@rule("mean")
def _mean(b: Builder, node: GraphNode) -> Value:
    _float_result(node)
    x = b.as_float(b.get(node.args[0]))
    dims = _dims(x, argument(node, 1, "dim"))
    total = b.reduce("sum", x, dims, bool(argument(node, 2, "keepdim", False)))
    return b.call("div", total, float(b.count(x, dims)))


@rule("adaptive_avg_pool2d", "adaptive_avg_pool1d")
def _global_average(b: Builder, node: GraphNode) -> Value:
    size = node.args[1]
    if any(n != 1 for n in size):
        raise NotFusible("pooling to more than one element")
    x = b.get(node.args[0])
    dims = [-1 - k for k in range(len(size))]
    return b.call("div", b.reduce("sum", x, dims), float(b.count(x, dims)))


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
    spec = b.view.spec(_source(node))
    assert spec is not None
    groups = int(node.args[1])
    shape = list(spec.shape)
    grouped = b.view_as(x, b.reshape(x, shape, [shape[0], groups, shape[1] // groups, *shape[2:]]))
    dims = list(range(2, len(grouped.dims)))
    mean, variance = _moments(b, grouped, dims)
    scale = b.call("rsqrt", b.call("add", variance, float(argument(node, 4, "eps", 1e-5))))
    y = b.call("mul", b.call("sub", grouped, mean), scale)
    flat = b.view_as(y, (y.dims[0], (*y.dims[1], *y.dims[2]), *y.dims[3:]))
    return _affine(b, flat, argument(node, 2, "weight"), argument(node, 3, "bias"), lambda w: _per_channel(b, w, len(shape)))


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

    return (y, None, None, moved(running_mean, b.view_as(mean, flat)), moved(running_var, unbiased))


@rule("softmax", "_softmax")
def _softmax(b: Builder, node: GraphNode) -> Value:
    _float_result(node)
    x = b.get(node.args[0])
    dim = [node.args[1]]
    e = b.call("exp", b.call("sub", x, b.reduce("top", x, dim)))
    return b.call("mul", e, b.call("reciprocal", b.reduce("sum", e, dim)))


@rule("log_softmax", "_log_softmax")
def _log_softmax(b: Builder, node: GraphNode) -> Value:
    _float_result(node)
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
    _float_result(node)
    if argument(node, 1, "ord", 2) != 2:
        raise NotFusible("a norm other than the Euclidean one")
    x = b.get(node.args[0])
    dims = _dims(x, argument(node, 2, "dim"))
    return b.call("sqrt", b.reduce("sum", b.call("square", x), dims, bool(argument(node, 3, "keepdim", False))))


@rule("embedding")
def _embedding(b: Builder, node: GraphNode) -> Value:
    """Rows of a table picked by ids: a load whose first dimension is addressed by another value."""
    name = _source(node)
    table, ids = b.view.spec(name), b.get(node.args[1])
    if table is None or table.dtype != "float32" or ids.kind != "int":
        raise NotFusible("an embedding of other dtypes than float32 by int64")
    width = Axis(table.shape[1])
    return b.add(
        Value("gather", (*ids.dims, (width,)), args=(ids,), tensor=name, gather_dim=table.shape[0],
              gather_stride=table.stride[0], strides=(*[0] * len(ids.dims), table.stride[1]))
    )  # fmt: skip


@rule("cross_entropy_loss")
def _cross_entropy(b: Builder, node: GraphNode) -> Value:
    """logits [rows, classes], targets [rows] of int64, the mean over rows. Ignored rows count neither above nor below."""
    weight, reduction = argument(node, 2, "weight"), argument(node, 3, "reduction", 1)
    ignore, smoothing = argument(node, 4, "ignore_index", -100), argument(node, 5, "label_smoothing", 0.0)
    x, target = b.get(node.args[0]), b.get(node.args[1])
    if weight is not None or reduction != 1 or smoothing or len(x.dims) != 2 or target.kind != "int" or x.op != "load":
        raise NotFusible("a cross-entropy of another form than the mean over rows of logits")
    spec = b.view.spec(_source(node))
    assert spec is not None
    lse = _log_sum_exp(b, x, [1])
    b.match(x.dims[0], target.dims[0])
    picked = b.add(Value("gather", target.dims, args=(target,), tensor=x.tensor, gather_dim=spec.shape[1],
                         gather_stride=spec.stride[1], strides=(spec.stride[0],)))  # fmt: skip
    ignored = b.call("eq", target, b.const(int(ignore)), kind="bool")
    loss = b.call("where", ignored, 0.0, b.call("sub", b.view_as(lse, target.dims), picked))
    counted = b.call("where", ignored, 0.0, 1.0)
    return b.call("div", b.reduce("sum", loss, [0], False), b.reduce("sum", counted, [0], False))
