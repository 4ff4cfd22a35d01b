"""Graph nodes that stay with PyTorch, as readable Python calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agents.engineers.offline.builder import argument
from agents.engineers.offline.graph import is_contiguous, short
from agents.engineers.offline.layouts import RELAID, is_channels_last
from agents.engineers.offline.statistics import NORMALISED
from gpu_runner.contracts import GraphNode

Name = Callable[[str], str]


def python(value: Any, name: Name) -> str:
    """An argument of the graph as a Python expression."""
    if isinstance(value, dict):
        if "ref" in value:
            return name(value["ref"])
        if "float" in value:
            return f'float("{value["float"]}")'
        if "dtype" in value:
            return f"torch.{value['dtype']}"
        if "device" in value:
            return f'torch.device("{value["device"]}")'
        if "memory_format" in value:
            return f"torch.{value['memory_format']}"
        if "layout" in value:
            return f"torch.{value['layout']}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(python(v, name) for v in value)}]"
    return repr(value)


def _all(node: GraphNode, name: Name, start: int = 0) -> str:
    parts = [python(a, name) for a in node.args[start:]]
    parts += [f"{k}={python(v, name)}" for k, v in node.kwargs.items()]
    return ", ".join(parts)


def _method(method: str) -> Callable[[GraphNode, Name], str]:
    return lambda node, name: f"{python(node.args[0], name)}.{method}({_all(node, name, 1)})"


def _function(function: str) -> Callable[[GraphNode, Name], str]:
    return lambda node, name: f"{function}({_all(node, name)})"


def _batch_norm(node: GraphNode, name: Name) -> str:
    inside = ", ".join(python(a, name) for a in node.args[:5])
    return f"(torch.batch_norm({inside}, False, {node.args[5]!r}, {node.args[6]!r}, False), None, None)"


def _slice(node: GraphNode, name: Name) -> str:
    dim, start, stop, step = (
        argument(node, k, n, d) for k, n, d in ((1, "dim", 0), (2, "start", None), (3, "end", None), (4, "step", 1))
    )
    assert node.out[0] is not None
    dim %= len(node.out[0].shape)
    cut = f"{'' if start in (None, 0) else start}:{'' if stop is None or stop > 2**62 else stop}" + (
        "" if step == 1 else f":{step}"
    )
    return f"{python(node.args[0], name)}[{':, ' * dim}{cut}]"


def _relaid(node: GraphNode, name: Name) -> str:
    """The tensor with its dimensions in the order of memory, made dense, and turned back."""
    spec, source = node.out[0], python(node.args[0], name)
    assert spec is not None
    rank = len(spec.shape)
    order = sorted(range(rank), key=lambda k: (-spec.stride[k], -spec.shape[k]))
    back = sorted(range(rank), key=order.__getitem__)
    turned = order != list(range(rank))
    text = f"{source}.permute{tuple(order)}.contiguous().permute{tuple(back)}" if turned else f"{source}.contiguous()"
    # Dimensions of size 1 may come out with other strides, which a caller could see.
    return f"{text}.as_strided({spec.shape}, {spec.stride})" if 1 in spec.shape else text


def _normalised(node: GraphNode, name: Name) -> str:
    """With the mean and the scale of each channel, after a bias that was not yet added."""
    x, mean, scale, weight, bias, before = (None if a is None else python(a, name) for a in node.args)
    assert node.out[0] is not None
    column = f".view{(-1, *[1] * (len(node.out[0].shape) - 2))}"
    text = f"({x if before is None else f'({x} + {before})'} - {mean}{column}) * {scale}{column}"
    text += f" * {weight}{column}" if weight else ""
    return f"({text}{f' + {bias}{column}' if bias else ''})"


_CALLS: dict[str, Callable[[GraphNode, Name], str]] = {
    RELAID: _relaid,
    NORMALISED: _normalised,
    "aten.linear.default": _function("F.linear"),
    "aten.conv2d.default": _function("F.conv2d"),
    "aten.matmul.default": _function("torch.matmul"),
    "aten.bmm.default": _function("torch.bmm"),
    "aten.cat.default": _function("torch.cat"),
    "aten.stack.default": _function("torch.stack"),
    "aten.embedding.default": lambda node, name: f"F.embedding({python(node.args[1], name)}, {python(node.args[0], name)})",
    "aten.view.default": _method("reshape"),
    "aten.reshape.default": _method("reshape"),
    "aten._unsafe_view.default": _method("reshape"),
    "aten.permute.default": _method("permute"),
    "aten.transpose.int": _method("transpose"),
    "aten.unsqueeze.default": _method("unsqueeze"),
    "aten.squeeze.dim": _method("squeeze"),
    "aten.expand.default": _method("expand"),
    "aten.select.int": _method("select"),
    "aten.slice.Tensor": _slice,
    "aten.split.Tensor": _method("split"),
    "aten.split_with_sizes.default": _method("split"),
    "aten.unbind.int": _method("unbind"),
    "aten.t.default": _method("t"),
    "aten.relu.default": _function("F.relu"),
    "aten.sigmoid.default": _function("torch.sigmoid"),
    "aten.tanh.default": _function("torch.tanh"),
    "aten.silu.default": _function("F.silu"),
    "aten._native_batch_norm_legit_no_training.default": _batch_norm,
}


def call(node: GraphNode, name: Name) -> str:
    """One expression that does what the node does."""
    if node.target == "getitem":
        return f"{python(node.args[0], name)}[{node.args[1]}]"
    writer = _CALLS.get(node.target)
    if writer is not None:
        return writer(node, name)
    return f"torch.ops.{node.target}({_all(node, name)})"


# Results that share memory with an operand: running them costs a microsecond and no bandwidth.
ALIASES = frozenset(
    "view reshape _unsafe_view permute transpose unsqueeze squeeze expand select slice split split_with_sizes unbind t detach alias "
    "getitem diagonal unflatten narrow".split()
)


def settled(node: GraphNode) -> str:
    """What makes sure that a result of PyTorch's lies channels last, as the graph says; it is free where it does."""
    spec = node.out[0] if len(node.out) == 1 else None
    if spec is None or is_contiguous(spec) or not is_channels_last(spec):
        return ""
    if len(spec.shape) == 3:
        return ".transpose(1, 2).contiguous().transpose(1, 2)"
    return f".contiguous(memory_format=torch.channels_last{'_3d' if len(spec.shape) == 5 else ''})"


def is_alias(node: GraphNode) -> bool:
    return node.target == "getitem" or short(node.target) in ALIASES
