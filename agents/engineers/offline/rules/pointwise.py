"""Operations on one element at a time: each is one C++ expression of `emit.expressions`."""

from __future__ import annotations

from agents.engineers.offline.builder import Builder, argument
from agents.engineers.offline.graph import short
from agents.engineers.offline.ir import NotFusible, Value
from agents.engineers.offline.rules.registry import RULES, float_result, rule
from gpu_runner.contracts import GraphNode

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


def _binary(b: Builder, node: GraphNode) -> Value:
    float_result(node)
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
    float_result(node)
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
    float_result(node)
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
    float_result(node)
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
    float_result(node)
    return b.call("where", b.get(node.args[0]), b.as_float(b.get(node.args[1])), b.as_float(b.get(node.args[2])))


@rule("masked_fill")
def _masked_fill(b: Builder, node: GraphNode) -> Value:
    float_result(node)
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
    float_result(node)
    x = b.get(node.args[0])
    return b.as_float(x) if x.kind != "float" else b.call("same", x)
