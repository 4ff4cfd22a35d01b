"""A captured graph with the questions an engineer asks of it: who makes this, who uses it, may these be one kernel?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from gpu_runner.contracts import Graph, GraphInput, GraphNode, TensorSpec


def refs(value: Any) -> Iterator[str]:
    """The names that an argument mentions, in order."""
    if isinstance(value, dict):
        if "ref" in value:
            yield value["ref"]
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from refs(item)


def ref(value: Any) -> str | None:
    """The name, when the argument is one value of the graph."""
    return value["ref"] if isinstance(value, dict) and "ref" in value else None


def number(value: Any) -> float | int | bool | None:
    """A plain or tagged number, or None for anything else."""
    if isinstance(value, dict) and "float" in value:
        return float(value["float"])
    return value if isinstance(value, (bool, int, float)) else None


def contiguous(shape: Iterable[int]) -> tuple[int, ...]:
    """Row-major strides, in elements."""
    strides: list[int] = []
    step = 1
    for size in reversed(tuple(shape)):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def is_contiguous(spec: TensorSpec) -> bool:
    """Whether the elements lie row-major without gaps; strides of dimensions of size 1 do not matter."""
    return all(size == 1 or a == b for size, a, b in zip(spec.shape, spec.stride, contiguous(spec.shape), strict=True))


def is_dense(spec: TensorSpec) -> bool:
    """Whether the elements fill one block of memory, in any order of dimensions."""
    step = 1
    for stride, size in sorted((st, sz) for sz, st in zip(spec.shape, spec.stride, strict=True) if sz != 1):
        if stride != step:
            return False
        step *= size
    return True


class View:
    """Lookups over one graph. Nodes are numbered in execution order; sets of nodes are bit masks: reachability is cheap."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: dict[str, GraphNode] = {n.name: n for n in graph.nodes}
        self.inputs: dict[str, GraphInput] = {i.name: i for i in graph.inputs}
        self.index = {n.name: k for k, n in enumerate(graph.nodes)}
        self.users: dict[str, list[str]] = {name: [] for name in (*self.inputs, *self.nodes)}
        self.before: dict[str, int] = {}
        for node in graph.nodes:
            mask = 0
            for name in dict.fromkeys(refs([list(node.args), list(node.kwargs.values())])):
                self.users[name].append(node.name)
                if name in self.index:
                    mask |= self.before[name] | 1 << self.index[name]
            self.before[node.name] = mask
        self.after: dict[str, int] = {}
        for node in reversed(graph.nodes):
            mask = 0
            for user in self.users[node.name]:
                mask |= self.after[user] | 1 << self.index[user]
            self.after[node.name] = mask
        self.returned = {o.ref for o in graph.outputs if o.ref}

    def spec(self, name: str) -> TensorSpec | None:
        """Shape, strides and dtype of a value; None when it is no tensor or several."""
        if name in self.inputs:
            return self.inputs[name].spec
        node = self.nodes[name]
        return node.out[0] if node.single and node.out else None

    def tensor(self, name: str) -> TensorSpec:
        """The same of what is known to be one tensor, because a kernel was planned on it."""
        spec = self.spec(name)
        if spec is None:
            raise LookupError(f"{name} is not one tensor")
        return spec

    def operands(self, node: GraphNode) -> list[str]:
        """The values a node reads, each once."""
        return list(dict.fromkeys(refs([list(node.args), list(node.kwargs.values())])))

    def order(self, names: Iterable[str]) -> list[str]:
        return sorted(names, key=self.index.__getitem__)

    def used_outside(self, name: str, group: set[str]) -> bool:
        return name in self.returned or any(user not in group for user in self.users[name])

    def convex(self, group: set[str]) -> bool:
        """Whether nothing outside lies on a path between two members, so that the group can run as one step."""
        inside = before = after = 0
        for name in group:
            inside |= 1 << self.index[name]
            before |= self.before[name]
            after |= self.after[name]
        return not before & after & ~inside


def short(target: str) -> str:
    """`aten.layer_norm.default` to `layer_norm`."""
    parts = target.split(".")
    return parts[1] if len(parts) > 1 else target
