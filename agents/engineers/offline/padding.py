"""Zeros around what a convolution reads, as the convolution's own padding: they need not be written.

The library pads both ends alike. Where the program pads one end more, as causal convolutions do, the other end gets as much,
and the results that only this made are cut off.
"""

from __future__ import annotations

from agents.engineers.offline.graph import contiguous, is_contiguous, number, ref, short
from gpu_runner.contracts import Graph, GraphNode, TensorSpec

PADS = frozenset({"pad", "constant_pad_nd"})
PADDED = frozenset({"conv1d", "conv2d", "conv3d"})
MOST_MORE = 1.1  # of the results: what the convolution may compute


def with_padding_inside(graph: Graph) -> Graph:
    """The same program, in which convolutions do the padding of theirs that is a node of its own."""
    made = {n.name: n for n in graph.nodes}
    specs: dict[str, TensorSpec] = {i.name: i.spec for i in graph.inputs if i.spec is not None}
    specs |= {n.name: n.out[0] for n in graph.nodes if n.single and n.out and n.out[0] is not None}
    taken = {*made, *specs}
    nodes: list[GraphNode] = []
    for node in graph.nodes:
        pad = made.get(ref(node.args[0]) or "") if short(node.target) in PADDED else None
        changed = _inside(node, pad, specs) if pad is not None else None
        if changed is None:
            nodes.append(node)
            continue
        convolution, firsts = changed
        before, after = convolution.out[0], node.out[0]
        assert before is not None
        assert after is not None
        cuts = [d for d in range(2, len(after.shape)) if before.shape[d] != after.shape[d]]
        steps = [convolution]
        shape, stride = list(before.shape), before.stride
        for d in cuts:
            shape[d] = after.shape[d]
            out = before.model_copy(update={"shape": tuple(shape), "stride": stride})
            args = ({"ref": ""}, d, firsts[d - 2], firsts[d - 2] + after.shape[d])
            steps.append(node.model_copy(update={"target": "aten.slice.Tensor", "args": args, "kwargs": {}, "out": (out,)}))
        for k in range(len(steps) - 1):  # the last has the convolution's name
            name = f"{node.name}_padded"
            while name in taken:
                name += "_"
            taken.add(name)
            steps[k] = steps[k].model_copy(update={"name": name})
            steps[k + 1] = steps[k + 1].model_copy(update={"args": ({"ref": name}, *steps[k + 1].args[1:])})
        nodes += steps
    used = {r for n in nodes for a in n.args if (r := ref(a)) is not None} | {o.ref for o in graph.outputs}
    return graph.model_copy(update={"nodes": tuple(n for n in nodes if short(n.target) not in PADS or n.name in used)})


def _inside(node: GraphNode, pad: GraphNode, specs: dict[str, TensorSpec]) -> tuple[GraphNode, list[int]] | None:
    """The convolution of what is padded, and where along each dimension its results begin; None where it cannot be."""
    source = ref(pad.args[0]) if short(pad.target) in PADS else None
    x, w, out = specs.get(source or ""), specs.get(ref(node.args[1]) or ""), node.out[0]
    if source is None or x is None or w is None or out is None or pad.kwargs or node.kwargs or not is_contiguous(out):
        return None
    mode = pad.args[2] if len(pad.args) > 2 and short(pad.target) == "pad" else "constant"
    value = pad.args[-1] if len(pad.args) > (2 if short(pad.target) == "constant_pad_nd" else 3) else 0
    rank = len(out.shape) - 2
    if mode != "constant" or (value is not None and number(value) != 0) or len(pad.args[1]) > 2 * rank:
        return None
    _, stride, padding, dilation, groups = [*node.args[2:], *[None, 1, 0, 1, 1][len(node.args) - 2 :]][:5]
    if isinstance(padding, str) or len(x.shape) != len(out.shape):
        return None
    stride, padding, dilation = (_each(v, rank) for v in (stride, padding, dilation))
    given = pad.args[1]  # both ends of the last dimension, of the one before it …
    ends = [(given[k], given[k + 1]) for k in range(0, len(given), 2)][::-1]
    ends = [(0, 0)] * (rank - len(ends)) + ends
    uneven = any(a != b for a, b in ends)
    if any(min(pair) < 0 for pair in ends) or (uneven and w.shape[1] == 1):  # a depthwise kernel joins what follows
        return None
    firsts, sizes, inside = [], [], []
    for d, (left, right) in enumerate(ends):
        more, left_over = divmod(max(left, right) - left, stride[d])
        inside.append(padding[d] + max(left, right))
        sizes.append((x.shape[2 + d] + 2 * inside[d] - dilation[d] * (w.shape[2 + d] - 1) - 1) // stride[d] + 1)
        firsts.append(more)
        if left_over or more + out.shape[2 + d] > sizes[d]:
            return None
    shape = (*out.shape[:2], *sizes)
    wide = out.model_copy(update={"shape": shape, "stride": contiguous(shape)})
    if wide.numel > MOST_MORE * out.numel:
        return None
    bias = node.args[2] if len(node.args) > 2 else None
    args = ({"ref": source}, node.args[1], bias, stride, inside, dilation, groups)
    return node.model_copy(update={"args": args, "out": (wide,)}), firsts


def _each(value: object, rank: int) -> list[int]:
    if isinstance(value, int):
        return [value] * rank
    given = list(value) if isinstance(value, (list, tuple)) else [0]
    return given * rank if len(given) == 1 else given
