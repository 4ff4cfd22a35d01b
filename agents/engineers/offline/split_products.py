"""Large float32 products on tensor cores without loss: linear layers and matrix products with what follows them, on a GPU."""

from __future__ import annotations

import math
from functools import partial

from agents.engineers.offline.builder import argument
from agents.engineers.offline.costs import Ceilings, eager_gemm_s, eager_pointwise_s
from agents.engineers.offline.emit.calls import is_alias
from agents.engineers.offline.emit.epilogue import Product
from agents.engineers.offline.emit.split_gemm import Side, Sizes, emit_split_product
from agents.engineers.offline.graph import View, is_contiguous, ref
from agents.engineers.offline.nests import make_nest
from agents.engineers.offline.products import Seed, comment_of, epilogue_of, seed_product, work_of
from agents.engineers.offline.regions import Region, Written
from gpu_runner.contracts import GraphNode, TensorSpec

# Below these a product does not fill the device with 128 × 128 tiles, or splitting costs more than it saves.
FEWEST_ROWS, FEWEST_COLUMNS, SHORTEST, LEAST_FLOPS = 129, 128, 128, 2e9
# Against the rate of the library's float32 products: three products at the rate of these terms, less what splitting takes.
GAIN = {"half": 3.0, "tf32": 1.6}
FUNCTIONS = ("aten.linear.default", "aten.matmul.default", "aten.mm.default", "aten.addmm.default")


def terms_of(target: str) -> str:
    """`half` where wgmma exists, else `tf32`."""
    return "half" if target == "sm_90" else "tf32"


def find_split_products(view: View, ceilings: Ceilings, taken: set[str]) -> list[Region]:
    """One region per large enough product of two float32 matrices."""
    regions: list[Region] = []
    claimed = set(taken)
    for node in view.graph.nodes:
        if node.name not in claimed and node.target in FUNCTIONS:
            region = _region(view, node, ceilings, claimed)
            if region is not None:
                regions.append(region)
                claimed |= set(region.nodes)
    return regions


def _region(view: View, node: GraphNode, ceilings: Ceilings, taken: set[str]) -> Region | None:
    found = _sides(view, node)
    if found is None:
        return None
    left, right, bias = found
    m, n, k = sizes = Sizes(left.rows, right.rows, left.depth)
    flops = 2.0 * m * n * k
    if m < FEWEST_ROWS or n < FEWEST_COLUMNS or k < SHORTEST or flops < LEAST_FLOPS:
        return None
    seed = seed_product(node, bias, -1)
    group = epilogue_of(view, node, seed, m, n, taken)
    if not group:
        return None
    work = work_of(view, group)
    after = [view.nodes[name] for name in group[1:] if not is_alias(view.nodes[name])]
    eager = eager_gemm_s(flops, ceilings) + sum(eager_pointwise_s(view, other, ceilings) for other in after)
    terms = terms_of(ceilings.target)
    moved = 4.0 * ((m + n) * k * (2 if terms == "half" else 1) + m * n)
    ours = 4 * ceilings.kernel_s + flops / (ceilings.flops * GAIN[terms]) + moved / ceilings.bandwidth
    says = f"product of {m} × {k} and {k} × {n} on tensor cores as two {'fp16' if terms == 'half' else 'tf32'} terms each"
    if work:
        says += f", then {', '.join(dict.fromkeys(work))} on its sums"
    write = partial(_write, node=node, group=tuple(group), seed=seed, sides=(left, right), sizes=sizes, terms=terms, says=says)
    return Region("split", tuple(group), write, eager, ours, says, (node.target.split(".")[1], *work))


def _write(
    view: View, name: str, *, node: GraphNode, group: tuple[str, ...], seed: Seed, sides: tuple[Side, Side], sizes: Sizes,
    terms: str, says: str,
) -> Written:  # fmt: skip
    nest = make_nest(view, group, seed, sizes.n)
    product = Product(view, name, nest, group, sides[0].name, sides[1].name, comment_of(view, group, says), says)
    return emit_split_product(product, sides, sizes, terms)


def _sides(view: View, node: GraphNode) -> tuple[Side, Side, str | None] | None:
    """Both operands as matrices of rows along the result's rows or columns, and the bias; None for other products."""
    result = view.spec(node.name)
    added = node.target == "aten.addmm.default"
    first, second = ref(argument(node, int(added), "")), ref(argument(node, int(added) + 1, ""))
    if first is None or second is None or result is None or result.dtype != "float32" or not is_contiguous(result):
        return None
    if added and any(argument(node, 3 + i, name, 1) != 1 for i, name in enumerate(("beta", "alpha"))):
        return None
    left, right = view.spec(first), view.spec(second)
    if left is None or right is None or left.dtype != "float32" or right.dtype != "float32" or len(right.shape) != 2:
        return None
    bias = ref(argument(node, 0, "")) if added else ref(argument(node, 2, "bias"))
    if bias is not None and view.tensor(bias).shape != (result.shape[-1],):
        return None
    a = _side(first, left, turned=False)
    b = _side(second, right, turned=node.target != "aten.linear.default")
    return (a, b, bias) if a is not None and b is not None and a.depth == b.depth else None


def _side(name: str, spec: TensorSpec, turned: bool) -> Side | None:
    """`turned`: the tensor's last dimension runs along the result, not along the sums. None when neither dimension is dense."""
    if len(spec.shape) > 2:
        rows = math.prod(spec.shape[:-1])
        return Side(name, rows, spec.shape[-1], True, spec.shape[-1]) if is_contiguous(spec) and not turned else None
    if len(spec.shape) != 2:
        return None
    (first, second), (stride, step) = spec.shape, spec.stride
    if step == 1 and stride >= second:
        return Side(name, second, first, False, stride) if turned else Side(name, first, second, True, stride)
    if stride == 1 and step >= first:
        return Side(name, second, first, True, step) if turned else Side(name, first, second, False, step)
    return None
