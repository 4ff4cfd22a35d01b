"""Norms whose statistics are apart from what is made with them, so that this fuses with what sums or picks from it.

A BatchNorm in training needs all of a channel before its first result: two readings, whatever follows. Where a maximum, a mean
or windows follow, the second reading can make these at once, and the normalised tensor needs not be written for them. What is
left of the norm's node makes mean, scale and running statistics alone; `normalised` is the rest.
"""

from __future__ import annotations

from agents.engineers.offline.builder import argument
from agents.engineers.offline.graph import is_dense, ref, short
from agents.engineers.offline.rules import POINTWISE
from gpu_runner.contracts import Graph, GraphNode

NORM = "_native_batch_norm_legit_functional"
NORMALISED = "normalised"
LEAST = 1 << 22  # numbers of a norm's result: what is saved must be more than one more call
# What makes one number of many, each of which is needed once.
FOLDS = frozenset("amax amin mean sum adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d".split())
WINDOWS = frozenset("max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d".split())


def with_statistics_apart(graph: Graph) -> Graph:
    """The same program, in which some norms are a node for their statistics and one for what is made with them."""
    made = {n.name: n for n in graph.nodes}
    users: dict[str, list[GraphNode]] = {}
    for node in graph.nodes:
        for name in {r for a in node.args if (r := ref(a)) is not None}:
            users.setdefault(name, []).append(node)
    taken = {*made, *(i.name for i in graph.inputs)}
    returned = {o.ref for o in graph.outputs}
    nodes: list[GraphNode] = []
    apart: dict[str, GraphNode] = {}  # by the name of the result: what makes it of statistics
    for node in graph.nodes:
        if node.name in apart:
            nodes.append(apart[node.name])
            continue
        nodes.append(node)
        parts = users.get(node.name, [])
        result = next((p for p in parts if p.target == "getitem" and p.args[1] == 0), None)
        if short(node.target) != NORM or result is None or any(p.target != "getitem" or p.args[1] in (1, 2) for p in parts):
            continue
        if not node.args[5] or result.name in returned or not _folded(result.name, users, returned):
            continue
        source, column = _of_sums(node, made, users)
        out = result.out[0]
        if source is None or out is None or out.dtype != "float32" or out.numel < LEAST or not is_dense(out):
            continue
        statistics = []
        for k, what in ((1, "mean"), (2, "scale")):
            name = f"{node.name}_{what}"
            while name in taken:
                name += "_"
            taken.add(name)
            statistics.append(result.model_copy(update={"name": name, "args": ({"ref": node.name}, k), "out": (node.out[k],)}))
        nodes += statistics
        args = ({"ref": source}, *({"ref": s.name} for s in statistics), *node.args[1:3], column)
        apart[result.name] = result.model_copy(update={"target": NORMALISED, "args": args})
    return graph.model_copy(update={"nodes": tuple(nodes)})


def _of_sums(
    node: GraphNode, made: dict[str, GraphNode], users: dict[str, list[GraphNode]]
) -> tuple[str | None, dict[str, str] | None]:
    """The tensor that is normalised and, where a convolution's bias alone lies between, the tensor before it and the bias.

    None where pointwise work makes the tensor: that is one kernel with the norm, and would have to be done twice.
    """
    source = ref(node.args[0])
    before = made.get(source or "")
    if source is None or before is None or short(before.target) not in POINTWISE:
        return source, None
    column = made.get(ref(before.args[1]) or "") if before.target == "aten.add.Tensor" and len(before.args) == 2 else None
    sums = ref(before.args[0])
    if sums is None or column is None or column.target != "aten.view.default" or before.kwargs or len(users[source]) > 1:
        return None, None
    spec, out = column.out[0], before.out[0]
    if spec is None or out is None or spec.shape != (out.shape[1], *[1] * (len(out.shape) - 2)):
        return None, None
    return sums, {"ref": column.name}


def _side_by_side(node: GraphNode) -> bool:
    """Whether it is pooling over windows that neither overlap nor reach over an edge."""
    if short(node.target) not in WINDOWS:
        return False
    window, step, padding = (argument(node, k, "", usual) for k, usual in ((1, []), (2, []), (3, 0)))
    return step in ([], window) and not (any(padding) if isinstance(padding, (list, tuple)) else padding)


def _folded(name: str, users: dict[str, list[GraphNode]], returned: set[str | None]) -> bool:
    """Whether windows, or pointwise work that nothing else needs and then a sum, come next."""
    while True:
        after = users.get(name, [])
        if any(_side_by_side(n) for n in after):
            return True
        if len(after) != 1 or name in returned:
            return False
        if short(after[0].target) in FOLDS:
            return not short(after[0].target).startswith("adaptive") or all(n == 1 for n in after[0].args[1])
        if short(after[0].target) not in POINTWISE:
            return False
        name = after[0].name
