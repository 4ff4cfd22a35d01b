"""The same program in operations that fuse better on a GPU: gates as what makes them, biases after what cuts their sums."""

from __future__ import annotations

from agents.engineers.offline.graph import contiguous, is_contiguous, ref, short
from gpu_runner.contracts import Graph, GraphNode, TensorSpec

CUTS = ("split", "split_with_sizes")


def with_gates_apart(graph: Graph) -> Graph:
    """`glu` as two halves, of which one is multiplied with the other's sigmoid."""
    taken, specs = _names_and_specs(graph)
    nodes: list[GraphNode] = []
    for node in graph.nodes:
        source = ref(node.args[0]) if short(node.target) == "glu" else None
        spec, out = specs.get(source or ""), node.out[0] if node.out else None
        if spec is None or out is None or out.dtype != "float32":
            nodes.append(node)
            continue
        dim = (node.args[1] if len(node.args) > 1 else -1) % len(spec.shape)
        half = spec.model_copy(update={"shape": out.shape})
        cut, first, second, gate = (_fresh(f"{node.name}_{what}", taken) for what in ("cut", "value", "gate", "sigmoid"))
        usual = {"module": node.module, "line": node.line, "kwargs": {}}
        nodes += [
            node.model_copy(
                update=usual
                | {"name": cut, "target": "aten.split.Tensor", "args": (node.args[0], out.shape[dim], dim)}
                | {"out": (half, half), "single": False}
            ),
            *(
                node.model_copy(update=usual | {"name": name, "target": "getitem", "args": ({"ref": cut}, k), "out": (half,)})
                for k, name in enumerate((first, second))
            ),
            node.model_copy(update=usual | {"name": gate, "target": "aten.sigmoid.default", "args": ({"ref": second},)}),
            node.model_copy(update=usual | {"target": "aten.mul.Tensor", "args": ({"ref": first}, {"ref": gate})}),
        ]
    return graph.model_copy(update={"nodes": tuple(nodes)})


def with_biases_after_cuts(graph: Graph) -> Graph:
    """A bias of channels that are then cut into parts, as an addition to each part: there it joins what follows."""
    taken, _ = _names_and_specs(graph)
    made = {n.name: n for n in graph.nodes}
    users: dict[str, list[GraphNode]] = {}
    for node in graph.nodes:
        for name in {r for a in node.args if (r := ref(a)) is not None}:
            users.setdefault(name, []).append(node)
    returned = {o.ref for o in graph.outputs}
    biased: dict[str, tuple[GraphNode, GraphNode]] = {}  # by the cut's name: the addition, its column
    for node in graph.nodes:
        column = _column(node, made)
        after = users.get(node.name, [])
        if column is None or node.name in returned or len(after) != 1 or short(after[0].target) not in CUTS:
            continue
        cut = after[0]
        parts = users.get(cut.name, [])
        whole = all(p.target == "getitem" and p.name not in returned for p in parts)
        if whole and len(cut.args) > 2 and cut.args[2] == 1 and not cut.kwargs:
            biased[cut.name] = node, column
    gone = {node.name for node, _ in biased.values()}
    nodes: list[GraphNode] = []
    for node in graph.nodes:
        source = ref(node.args[0]) if node.args else None
        if node.name in gone:
            continue
        if node.name in biased:
            nodes.append(node.model_copy(update={"args": (biased[node.name][0].args[0], *node.args[1:])}))
        elif node.target == "getitem" and source in biased:
            nodes += _part(node, made[source], *biased[source], taken)
        else:
            nodes.append(node)
    return graph.model_copy(update={"nodes": tuple(nodes)})


def _column(node: GraphNode, made: dict[str, GraphNode]) -> GraphNode | None:
    """Of an addition to channels, the view of a vector that is added."""
    if node.target != "aten.add.Tensor" or node.kwargs or len(node.args) != 2 or node.out[0] is None:
        return None
    column, sums, out = made.get(ref(node.args[1]) or ""), made.get(ref(node.args[0]) or ""), node.out[0]
    if column is None or sums is None or column.target != "aten.view.default" or column.out[0] is None:
        return None
    expected = (out.shape[1], *[1] * (len(out.shape) - 2)) if len(out.shape) > 2 else ()
    return column if column.out[0].shape == expected and is_contiguous(out) and out.dtype == "float32" else None


def _part(node: GraphNode, cut: GraphNode, add: GraphNode, column: GraphNode, taken: set[str]) -> list[GraphNode]:
    """One part of the sums, its part of the bias, and their sum under the part's own name."""
    k = node.args[1]
    sizes = [s.shape[1] for s in cut.out if s is not None]
    first = sum(sizes[:k])
    out, bias = node.out[0], column.out[0]
    assert out is not None
    assert bias is not None
    sums, some = _fresh(f"{node.name}_sums", taken), _fresh(f"{node.name}_bias", taken)
    piece = bias.model_copy(update={"shape": (sizes[k], *bias.shape[1:])})
    return [
        node.model_copy(update={"name": sums}),
        column.model_copy(
            update={"name": some, "target": "aten.slice.Tensor", "out": (piece,)}
            | {"args": ({"ref": column.name}, 0, first, first + sizes[k])}
        ),
        add.model_copy(
            update={"name": node.name, "args": ({"ref": sums}, {"ref": some}), "line": add.line}
            | {"out": (out.model_copy(update={"stride": contiguous(out.shape)}),)}
        ),
    ]


def _names_and_specs(graph: Graph) -> tuple[set[str], dict[str, TensorSpec]]:
    specs = {i.name: i.spec for i in graph.inputs if i.spec is not None}
    specs |= {n.name: n.out[0] for n in graph.nodes if n.single and n.out and n.out[0] is not None}
    return {*(n.name for n in graph.nodes), *(i.name for i in graph.inputs)}, specs


def _fresh(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name
