"""Convolutions as a GPU wants them: channels last in memory, and their bias among what follows.

The library's convolutions on tensor cores read and write tensors whose channels lie side by side; for others it turns operand
and result around in kernels of its own. It also adds a bias in a pass of its own. Both are said here as a graph that does the
same: the bias is an addition like any other, and strides tell the layout. `relaid` copies a tensor into other strides; where
a kernel of ours makes or reads the tensor anyway, the copy is fused into it. Results leave in the strides that they had.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agents.engineers.offline.graph import contiguous, is_contiguous, is_dense, ref, refs, short
from agents.engineers.offline.rules import POINTWISE
from gpu_runner.contracts import Graph, GraphNode, TensorSpec

RELAID = "relaid"
CONVOLUTIONS = frozenset("conv1d conv2d conv3d conv_transpose2d conv_transpose3d".split())
# PyTorch's kernels for these keep channels last, for images.
IMAGES = frozenset(
    "max_pool2d avg_pool2d adaptive_avg_pool2d upsample_nearest2d upsample_bilinear2d cat pad constant_pad_nd".split()
)
SAME = frozenset(
    "_native_batch_norm_legit_functional _native_batch_norm_legit_no_training normalised group_norm instance_norm softmax "
    "_softmax log_softmax _log_softmax dropout".split()
)
FOLDING = frozenset("mean sum amax amin var std linalg_vector_norm logsumexp".split())


def channels_last(shape: Iterable[int]) -> tuple[int, ...]:
    """Strides in elements of a tensor [images, channels, …] whose channels lie side by side."""
    images, channels, *space = shape
    first, *middle, last = contiguous((images, *space, channels))
    return first, last, *middle


def is_channels_last(spec: TensorSpec) -> bool:
    """Whether the elements lie so; strides of dimensions of size 1 do not matter."""
    return 3 <= len(spec.shape) <= 5 and same_memory(spec.shape, spec.stride, channels_last(spec.shape))


def packed(spec: TensorSpec) -> tuple[int, ...]:
    """Strides without gaps in the same order of dimensions, which PyTorch gives to what it computes from a part of a tensor."""
    order = sorted(range(len(spec.shape)), key=lambda d: -spec.stride[d])
    dense = contiguous(spec.shape[d] for d in order)
    return tuple(dense[order.index(d)] for d in range(len(spec.shape)))


def same_memory(shape: Iterable[int], one: Iterable[int], other: Iterable[int]) -> bool:
    """Whether two strides put every element at the same place."""
    return all(size == 1 or a == b for size, a, b in zip(shape, one, other, strict=True))


def with_biases_apart(graph: Graph) -> Graph:
    """The same program, in which a convolution's bias is an addition after it. The sum keeps the convolution's name."""
    taken = {*(n.name for n in graph.nodes), *(i.name for i in graph.inputs)}
    shapes = {i.name: i.spec for i in graph.inputs}
    nodes: list[GraphNode] = []
    for node in graph.nodes:
        bias = ref(node.args[2]) if short(node.target) in CONVOLUTIONS and len(node.args) > 2 else None
        spec, out = shapes.get(bias or ""), node.out[0] if node.out else None
        if bias is None or spec is None or out is None or out.dtype != "float32" or spec.dtype != "float32":
            nodes.append(node)
            continue
        sums, column = _fresh(f"{node.name}_sums", taken), _fresh(f"{node.name}_bias", taken)
        shape = (out.shape[1], *[1] * (len(out.shape) - 2))
        nodes += [
            node.model_copy(update={"name": sums, "args": (*node.args[:2], None, *node.args[3:])}),
            GraphNode(
                name=column,
                target="aten.view.default",
                args=({"ref": bias}, list(shape)),
                out=(TensorSpec(shape=shape, dtype="float32", stride=contiguous(shape)),),
            ),
            GraphNode(
                name=node.name,
                target="aten.add.Tensor",
                args=({"ref": sums}, {"ref": column}),
                out=node.out,
                module=node.module,
                line=node.line,
            ),
        ]
    return graph.model_copy(update={"nodes": tuple(nodes)})


def with_channels_last(graph: Graph) -> Graph | None:
    """The same program with convolutions on channels-last tensors, or None when it has none that could be."""
    pass_ = _Pass(graph)
    changed = [pass_.node(node) for node in graph.nodes]
    if not any(changed):
        return None
    outputs = []
    for output in graph.outputs:
        name = output.ref
        if output.kind == "result" and name in pass_.before and name in pass_.specs:
            name = pass_.copy(name, pass_.before[name].stride, exactly=True)
        outputs.append(output.model_copy(update={"ref": name}))
    return graph.model_copy(update={"nodes": tuple(pass_.nodes), "outputs": tuple(outputs)})


class _Pass:
    """Walks the nodes in order. `specs`: as tensors lie in the new graph; `before`: as they lay, where that differs."""

    def __init__(self, graph: Graph) -> None:
        self.nodes: list[GraphNode] = []
        self.specs: dict[str, TensorSpec] = {i.name: i.spec for i in graph.inputs if i.spec is not None}
        self.before: dict[str, TensorSpec] = {}
        self.several: dict[str, list[TensorSpec | None]] = {}
        self.taken = {*(n.name for n in graph.nodes), *self.specs}
        self.copies: dict[tuple[str, tuple[int, ...]], str] = {}

    def node(self, node: GraphNode) -> bool:
        """Adds one node; whether it is a convolution that now runs on channels-last tensors."""
        name = short(node.target) if node.target != "getitem" else "getitem"
        if name in CONVOLUTIONS and self.convolution(node, name):
            return True
        laid = [n for n in refs([list(node.args), list(node.kwargs.values())]) if n in self.before or n in self.several]
        if not laid:
            self.add(node, node.out)
            return False
        strides = self.strides_after(node, name, laid)
        if strides is None:
            node = self.restored(node, laid)
            self.add(node, node.out)
        else:
            out = tuple(
                s if s is None or new is None else s.model_copy(update={"stride": new})
                for s, new in zip(node.out, strides, strict=True)
            )
            self.add(node, out)
        return False

    def add(self, node: GraphNode, out: tuple[TensorSpec | None, ...]) -> None:
        old = node.out
        self.nodes.append(node.model_copy(update={"out": out}))
        if not node.single:
            if out != old:
                self.several[node.name] = list(old)
            return
        if out and out[0] is not None and old[0] is not None:
            self.specs[node.name] = out[0]
            if out[0].stride != old[0].stride:
                self.before[node.name] = old[0]

    # Convolutions

    def convolution(self, node: GraphNode, name: str) -> bool:
        source, weight = ref(node.args[0]), ref(node.args[1])
        x, w = self.specs.get(source or ""), self.specs.get(weight or "")
        out = node.out[0]
        if source is None or weight is None or x is None or w is None or out is None:
            return False
        rank = {"1": 3, "2": 4, "3": 5}[name[-2]]
        if any(s.dtype != "float32" or len(s.shape) != rank for s in (x, w, out)) or x.shape[1] == 1:
            return False
        source = self.copy(source, channels_last(x.shape))
        args = ({"ref": source}, *node.args[1:])
        if rank > 3:
            self.add(node.model_copy(update={"args": args}), (out.model_copy(update={"stride": channels_last(out.shape)}),))
            return True
        # One dimension: as an image of one row, since the library knows channels last for images alone.
        image, filters = (self.as_image(f"{node.name}_{kind}", n) for kind, n in (("image", source), ("filters", weight)))
        shape = (out.shape[0], out.shape[1], 1, out.shape[2])
        sums = _fresh(f"{node.name}_row", self.taken)
        wide = TensorSpec(shape=shape, dtype="float32", stride=channels_last(shape))
        given = [*node.args[2:], *[None] * 5][:5]
        bias, stride, padding, dilation, groups = given
        padding = padding if isinstance(padding, str) else [0, *_list(padding, 0)]
        self.add(
            GraphNode(
                name=sums,
                target=node.target.replace("conv1d", "conv2d"),
                args=(
                    {"ref": image},
                    {"ref": filters},
                    bias,
                    [1, *_list(stride, 1)],
                    padding,
                    [1, *_list(dilation, 1)],
                    groups or 1,
                ),
                out=(wide,),
                module=node.module,
                line=node.line,
            ),
            (wide,),
        )
        narrow = out.model_copy(update={"stride": channels_last(out.shape)})
        self.add(
            node.model_copy(update={"target": "aten.squeeze.dim", "args": ({"ref": sums}, 2), "kwargs": {}}),
            (narrow,),
        )
        return True

    def as_image(self, name: str, source: str) -> str:
        """[images, channels, length] as images of one row."""
        name, spec = _fresh(name, self.taken), self.specs[source]
        shape = (*spec.shape[:2], 1, spec.shape[2])
        out = TensorSpec(shape=shape, dtype=spec.dtype, stride=(*spec.stride[:2], spec.stride[2] * shape[3], spec.stride[2]))
        self.add(GraphNode(name=name, target="aten.unsqueeze.default", args=({"ref": source}, 2), out=(out,)), (out,))
        return name

    # Copies

    def copy(self, name: str, stride: tuple[int, ...], exactly: bool = False) -> str:
        """The name of the same tensor with other strides. `exactly`: even those of dimensions of size 1."""
        spec = self.specs[name]
        if spec.stride == stride or (not exactly and same_memory(spec.shape, spec.stride, stride)):
            return name
        if (name, stride) not in self.copies:
            out = spec.model_copy(update={"stride": stride})
            copy = _fresh(f"{name}_laid", self.taken)
            self.add(GraphNode(name=copy, target=RELAID, args=({"ref": name},), out=(out,)), (out,))
            self.copies[name, stride] = copy
        return self.copies[name, stride]

    def restored(self, node: GraphNode, laid: list[str]) -> GraphNode:
        """The node on operands that lie as they did before."""
        instead = {n: self.copy(n, self.before[n].stride, exactly=True) for n in laid if n in self.before}
        return node.model_copy(update={"args": _renamed(node.args, instead), "kwargs": _renamed(node.kwargs, instead)})

    # How the results of an operation lie whose operands lie otherwise than before

    def strides_after(self, node: GraphNode, name: str, laid: list[str]) -> list[tuple[int, ...] | None] | None:
        """Strides for each result (None: as before), or None when the operation needs its operands as they lay before."""
        first = ref(node.args[0]) if node.args else None
        x = self.specs.get(first or "")
        if name == "getitem":
            source = str(node.args[0]["ref"])
            made = next(n for n in reversed(self.nodes) if n.name == source)
            spec = made.out[node.args[1]]
            return [spec.stride if spec is not None else None]
        if name in POINTWISE:
            return self.pointwise(node, laid)
        if name in _VIEWS and x is not None:
            return _VIEWS[name](node, x)
        out = node.out[0] if node.out else None
        if x is None or out is None or first not in laid:
            if name == "cat" and out is not None and len(out.shape) == 4:
                return [channels_last(out.shape)]
            return None
        if name in SAME and is_dense(x):
            return [x.stride, *[None] * (len(node.out) - 1)]
        if name in IMAGES and len(x.shape) == len(out.shape) == 4 and is_channels_last(x):
            return [channels_last(out.shape)]
        if name in FOLDING or (name == "clone" and node.kwargs.get("memory_format") == {"memory_format": "contiguous_format"}):
            return [None] * len(node.out)
        if name == "clone" and is_dense(x):
            return [x.stride]
        plain = all(s is None or is_contiguous(s) for s in node.out)
        if plain and all(n in self.specs and is_contiguous(self.specs[n]) for n in laid):
            return [None] * len(node.out)
        return None

    def pointwise(self, node: GraphNode, laid: list[str]) -> list[tuple[int, ...] | None]:
        """As the first operand of the result's shape that lies otherwise than before."""
        out = node.out[0]
        for name in laid:
            spec = self.specs[name]
            if out is not None and spec.shape == out.shape:
                return [spec.stride if is_dense(spec) else packed(spec)]
        return [None]


def _fresh(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _list(value: Any, default: int) -> list[int]:
    if value is None:
        return [default]
    return [value] if isinstance(value, int) else list(value)


def _renamed(value: Any, instead: dict[str, str]) -> Any:
    if isinstance(value, dict):
        if "ref" in value:
            return {"ref": instead.get(value["ref"], value["ref"])}
        return {key: _renamed(item, instead) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_renamed(item, instead) for item in value)
    return value


Strides = list[tuple[int, ...] | None] | None


def _permute(node: GraphNode, x: TensorSpec) -> Strides:
    rank = len(x.shape)
    order = list(range(rank))
    name = short(node.target)
    if name == "permute":
        order = [d % rank for d in node.args[1]]
    elif name == "transpose":
        i, j = node.args[1] % rank, node.args[2] % rank
        order[i], order[j] = j, i
    else:
        order.reverse()
    return [tuple(x.stride[k] for k in order)]


def _unsqueeze(node: GraphNode, x: TensorSpec) -> Strides:
    at = node.args[1] % (len(x.shape) + 1)
    step = x.stride[at] * x.shape[at] if at < len(x.shape) else 1
    return [(*x.stride[:at], step, *x.stride[at:])]


def _squeeze(node: GraphNode, x: TensorSpec) -> Strides:
    rank = len(x.shape)
    wanted = node.args[1] if len(node.args) > 1 else range(rank)
    gone = {d % rank for d in ([wanted] if isinstance(wanted, int) else wanted)}
    return [tuple(s for k, s in enumerate(x.stride) if not (k in gone and x.shape[k] == 1))]


def _slice(node: GraphNode, x: TensorSpec) -> Strides:
    dim = (node.args[1] if len(node.args) > 1 else 0) % len(x.shape)
    step = node.args[4] if len(node.args) > 4 else 1
    return [tuple(s * step if k == dim else s for k, s in enumerate(x.stride))]


def _select(node: GraphNode, x: TensorSpec) -> Strides:
    dim = node.args[1] % len(x.shape)
    return [tuple(s for k, s in enumerate(x.stride) if k != dim)]


def _unbind(node: GraphNode, x: TensorSpec) -> Strides:
    dim = (node.args[1] if len(node.args) > 1 else 0) % len(x.shape)
    return [tuple(s for k, s in enumerate(x.stride) if k != dim) for _ in node.out]


def _split(node: GraphNode, x: TensorSpec) -> Strides:
    return [x.stride for _ in node.out]


def _alias(node: GraphNode, x: TensorSpec) -> Strides:
    return [x.stride]


def _reshape(node: GraphNode, x: TensorSpec) -> Strides:
    """Where the new shape is a view of the tensor as it lies."""
    out = node.out[0]
    assert out is not None
    strides: list[int] = []
    position, left, step = len(x.shape) - 1, 1, 1  # `left` numbers `step` apart are not yet in a dimension of the result
    for size in reversed(out.shape):
        while left < size and position >= 0:
            if left > 1 and x.shape[position] > 1 and x.stride[position] != step * left:
                return None
            step = x.stride[position] if left == 1 and x.shape[position] > 1 else step
            left *= x.shape[position]
            position -= 1
        if left % size:
            return None
        strides.append(step)
        left, step = left // size, step * size
    return [tuple(reversed(strides))]


_VIEWS = {
    "permute": _permute, "transpose": _permute, "t": _permute, "unsqueeze": _unsqueeze, "squeeze": _squeeze, "slice": _slice,
    "select": _select, "split": _split, "split_with_sizes": _split, "unbind": _unbind,
    "alias": _alias, "detach": _alias, "view": _reshape, "reshape": _reshape, "flatten": _reshape, "_unsafe_view": _reshape,
}  # fmt: skip
