"""What each pointwise function of the little language is in C++."""

from __future__ import annotations

import math
from collections.abc import Callable

from agents.engineers.offline.ir import Value

# Functions whose argument may be NaN keep it: every selection is written so that a false comparison passes the operand on.
EXPRESSIONS: dict[str, Callable[..., str]] = {
    "same": lambda x: x,
    "to_float": lambda x: f"(float){x}",
    "relu": lambda x: f"({x} < 0.0f ? 0.0f : {x})",
    "relu6": lambda x: f"({x} < 0.0f ? 0.0f : {x} > 6.0f ? 6.0f : {x})",
    "exp": lambda x: f"fast_exp({x})",
    "log": lambda x: f"fast_log({x})",
    "log1p": lambda x: f"fast_log1p({x})",
    "expm1": lambda x: f"fast_expm1({x})",
    "sqrt": lambda x: f"std::sqrt({x})",
    "rsqrt": lambda x: f"1.0f / std::sqrt({x})",
    "neg": lambda x: f"-{x}",
    "abs": lambda x: f"std::fabs({x})",
    "floor": lambda x: f"std::floor({x})",
    "ceil": lambda x: f"std::ceil({x})",
    "sigmoid": lambda x: f"fast_sigmoid({x})",
    "silu": lambda x: f"fast_silu({x})",
    "tanh": lambda x: f"fast_tanh({x})",
    "erf": lambda x: f"fast_erf({x})",
    "gelu": lambda x: f"fast_gelu({x})",
    "gelu_tanh": lambda x: f"fast_gelu_tanh({x})",
    "mish": lambda x: f"fast_mish({x})",
    "softsign": lambda x: f"{x} / (1.0f + std::fabs({x}))",
    "softplus": lambda x, beta, threshold: f"fast_softplus({x}, {beta}, {threshold})",
    "elu": lambda x, alpha: f"({x} > 0.0f ? {x} : {alpha} * fast_expm1({x}))",
    "leaky_relu": lambda x, slope: f"({x} > 0.0f ? {x} : {slope} * {x})",
    "hardsigmoid": lambda x: f"clamp_high(clamp_low({x} + 3.0f, 0.0f), 6.0f) / 6.0f",
    "hardswish": lambda x: f"{x} * clamp_high(clamp_low({x} + 3.0f, 0.0f), 6.0f) / 6.0f",
    "reciprocal": lambda x: f"1.0f / {x}",
    "square": lambda x: f"{x} * {x}",
    "pow": lambda x, y: f"std::pow({x}, {y})",
    "add": lambda x, y: f"{x} + {y}",
    "sub": lambda x, y: f"{x} - {y}",
    "mul": lambda x, y: f"{x} * {y}",
    "div": lambda x, y: f"{x} / {y}",
    "maximum": lambda x, y: f"({x} > {y} || {x} != {x} ? {x} : {y})",
    "minimum": lambda x, y: f"({x} < {y} || {x} != {x} ? {x} : {y})",
    "clamp_low": lambda x, low: f"clamp_low({x}, {low})",
    "clamp_high": lambda x, high: f"clamp_high({x}, {high})",
    "where": lambda c, x, y: f"({c} ? {x} : {y})",
    "piece": lambda c, x, y: f"({c} ? {x} : {y})",
    "not": lambda x: f"!{x}",
    "and": lambda x, y: f"({x} && {y})",
    "or": lambda x, y: f"({x} || {y})",
    "eq": lambda x, y: f"{x} == {y}",
    "ne": lambda x, y: f"{x} != {y}",
    "lt": lambda x, y: f"{x} < {y}",
    "le": lambda x, y: f"{x} <= {y}",
    "gt": lambda x, y: f"{x} > {y}",
    "ge": lambda x, y: f"{x} >= {y}",
    "finite_or_zero": lambda x: f"(std::fabs({x}) == std::numeric_limits<float>::infinity() ? 0.0f : {x})",
}

# Cycles per element of one AVX2 lane group, roughly: what decides whether a value is kept for the next pass or computed again.
EXPENSIVE = frozenset(
    "exp log log1p expm1 sigmoid silu tanh erf gelu gelu_tanh mish softplus elu pow".split()
)  # fmt: skip
C_TYPES = {"float": "float", "int": "long", "bool": "bool"}


def literal(value: Value) -> str:
    """A constant of the language as C++."""
    number = value.number
    if value.kind == "bool":
        return "true" if number else "false"
    if value.kind == "int":
        return f"{int(number)}L"
    if math.isnan(number):
        return "std::numeric_limits<float>::quiet_NaN()"
    if math.isinf(number):
        return ("-" if number < 0 else "") + "std::numeric_limits<float>::infinity()"
    text = repr(float(number))
    return f"({text}f)" if number < 0 else f"{text}f"
