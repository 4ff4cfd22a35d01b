"""What a matrix product multiplies, as its kernels read it: two matrices where they lie, or a batch of such pairs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from agents.engineers.offline.builder import argument
from agents.engineers.offline.graph import View, is_dense, number, ref
from gpu_runner.contracts import GraphNode

FUNCTIONS = {  # positions of both operands
    "aten.linear.default": (0, 1),
    "aten.matmul.default": (0, 1),
    "aten.mm.default": (0, 1),
    "aten.bmm.default": (0, 1),
    "aten.addmm.default": (1, 2),
    "aten.baddbmm.default": (1, 2),
}
ADDED = frozenset({"aten.addmm.default", "aten.baddbmm.default"})  # their first argument is added to the product


@dataclass(frozen=True)
class Side:
    """An operand as `rows` × `depth`: contiguous along its depth or along its rows; `lead` is the other dimension's stride.

    `outer` and `inner` are strides of the batch, 0 where it shares a matrix. All in elements.
    """

    name: str
    rows: int
    depth: int
    along_k: bool
    lead: int
    outer: int = 0
    inner: int = 0


@dataclass(frozen=True)
class Operands:
    """`left[M,K] right[N,K]ᵀ` for each of batch[0] × batch[1] pairs, made row by row and pair by pair.

    `added`: a tensor that broadcasts to the result, times `beta`; the product goes times `alpha`.
    """

    left: Side
    right: Side
    batch: tuple[int, int]
    added: str | None = None
    alpha: float = 1.0
    beta: float = 1.0

    @property
    def matrices(self) -> int:
        return self.batch[0] * self.batch[1]


@dataclass(frozen=True)
class Matrices:
    """A tensor's last two dimensions as (size, stride) of rows and depth, and its batch."""

    name: str
    batch: tuple[tuple[int, int], ...]
    rows: tuple[int, int]
    depth: tuple[int, int]


def operands_of(view: View, node: GraphNode) -> Operands | None:
    """Of a product of float32 matrices; None for other nodes, for vectors, and where no dimension of a matrix is dense."""
    places = FUNCTIONS.get(node.target)
    result = view.spec(node.name)
    if places is None or result is None or result.dtype != "float32" or len(result.shape) < 2 or not is_dense(result):
        return None
    left, right = (matrices_of(view, ref(argument(node, place, ""))) for place in places)
    if left is None or right is None:
        return None
    if node.target != "aten.linear.default":
        right = replace(right, rows=right.depth, depth=right.rows)  # its last dimension runs along the result's
    if left.depth[0] != right.depth[0]:
        return None
    extras = _added(view, node)
    if extras is None:
        return None
    added, alpha, beta = extras
    rank = len(result.shape) - 2
    merged = _merge(broadcast(left, rank), broadcast(right, rank))
    if merged is None:
        return None
    left, right, sizes = merged
    a, b = side_of(left), side_of(right)
    if a is None or b is None or math.prod(sizes) * a.rows * b.rows != result.numel:
        return None
    return Operands(a, b, sizes, added, alpha, beta)


def matrices_of(view: View, name: str | None) -> Matrices | None:
    spec = view.spec(name) if name is not None else None
    if name is None or spec is None or spec.dtype != "float32" or len(spec.shape) < 2:
        return None
    pairs = tuple(zip(spec.shape, spec.stride, strict=True))
    return Matrices(name, pairs[:-2], pairs[-2], pairs[-1])


def _added(view: View, node: GraphNode) -> tuple[str | None, float, float] | None:
    """What is added, and both factors; None when they are no plain numbers."""
    if node.target in ADDED:
        alpha, beta = number(argument(node, 4, "alpha", 1)), number(argument(node, 3, "beta", 1))
        if alpha is None or beta is None:
            return None
        return (ref(argument(node, 0, "")) if beta != 0 else None), float(alpha), float(beta)
    return (ref(argument(node, 2, "bias")) if node.target == "aten.linear.default" else None), 1.0, 1.0


def broadcast(x: Matrices, rank: int) -> Matrices:
    """With `rank` dimensions of batch, of stride 0 where the tensor has no such dimension or one of size 1."""
    pairs = [(1, 0)] * (rank - len(x.batch)) + [(size, stride if size > 1 else 0) for size, stride in x.batch]
    return replace(x, batch=tuple(pairs))


def _merge(left: Matrices, right: Matrices) -> tuple[Matrices, Matrices, tuple[int, int]] | None:
    """The batch as two dimensions. What only `left` varies along, in step with its rows, becomes further rows of it."""
    batch = [
        (max(a, b), p, q) for (a, p), (b, q) in zip(left.batch, right.batch, strict=True) if max(a, b) > 1
    ]  # size, stride of left, stride of right
    rows = left.rows
    while batch and batch[-1][2] == 0 and (batch[-1][1] == rows[0] * rows[1] or rows[0] == 1):
        size, step, _ = batch.pop()
        rows = (size * rows[0], rows[1] if rows[0] > 1 else step)
    k = 0
    while k + 1 < len(batch):
        (outer, *far), (inner, *near) = batch[k], batch[k + 1]
        if all(a == b * inner for a, b in zip(far, near, strict=True)):
            batch[k : k + 2] = [(outer * inner, near[0], near[1])]
        else:
            k += 1
    if len(batch) > 2:
        return None
    whole = [(1, 0, 0)] * (2 - len(batch)) + batch
    sides = [
        replace(x, rows=r, batch=tuple((one[0], one[1 + k]) for one in whole))
        for k, (x, r) in enumerate(((left, rows), (right, right.rows)))
    ]
    return sides[0], sides[1], (whole[0][0], whole[1][0])


def side_of(x: Matrices) -> Side | None:
    (rows, step), (depth, stride) = x.rows, x.depth
    outer, inner = (pair[1] for pair in x.batch)
    if stride == 1 or depth == 1:
        return Side(x.name, rows, depth, True, step, outer, inner)
    if step == 1 or rows == 1:
        return Side(x.name, rows, depth, False, stride, outer, inner)
    return None
