"""Where rules are kept and looked up."""

from __future__ import annotations

from collections.abc import Callable

from agents.engineers.offline.builder import Builder
from agents.engineers.offline.graph import short
from agents.engineers.offline.ir import NotFusible, Value
from gpu_runner.contracts import GraphNode

Rule = Callable[[Builder, GraphNode], "Value | tuple[Value | None, ...]"]
RULES: dict[str, Rule] = {}
VIEWS = frozenset(
    {"view", "reshape", "_unsafe_view", "flatten", "unsqueeze", "squeeze", "expand", "permute", "transpose", "t", "clone",
     "contiguous", "detach", "alias", "dropout", "relaid", "_to_copy"}
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
    b.env[node.name] = result


def source(node: GraphNode) -> str:
    """The graph name of a node's first operand."""
    return str(node.args[0]["ref"])


def float_result(node: GraphNode) -> None:
    """Refuse a node whose result is not float32."""
    if node.out[0] is None or node.out[0].dtype != "float32":
        raise NotFusible(f"{node.target} with a result that is not float32")
