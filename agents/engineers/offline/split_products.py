"""Large float32 products on tensor cores without loss: linear layers, matrix products and batches of them, on a GPU."""

from __future__ import annotations

from functools import partial

from agents.engineers.offline.builder import Builder
from agents.engineers.offline.costs import Ceilings, eager_gemm_s, eager_pointwise_s
from agents.engineers.offline.emit.calls import is_alias
from agents.engineers.offline.emit.epilogue import Product
from agents.engineers.offline.emit.split_gemm import emit_split_product
from agents.engineers.offline.graph import View, contiguous
from agents.engineers.offline.ir import ACCUMULATOR
from agents.engineers.offline.nests import make_nest
from agents.engineers.offline.operands import Operands, operands_of
from agents.engineers.offline.products import Seed, comment_of, epilogue_of, work_of
from agents.engineers.offline.regions import Region, Written
from agents.engineers.offline.tiling import Sizes, Tiling, sizes_of, tiling_of, workspace_floats
from gpu_runner.contracts import GraphNode

LEAST_FLOPS = 1e9  # below, launches take longer than the library's product
WORTHWHILE = 0.9  # of eager's time: what a product may take, since predictions are not better than that
MOST_WORKSPACE = 1 << 28  # floats, 1 GiB
TERMS = {"sm_90": "half", "sm_80": "tf32"}  # elsewhere tensor cores are no faster in float32 accuracy, or nobody has looked
TF32_GAIN = 1.6  # against the library's float32, expected on sm_80 from its rates


def find_split_products(view: View, ceilings: Ceilings, taken: set[str]) -> list[Region]:
    """One region per product of float32 matrices that splitting makes faster."""
    if ceilings.target not in TERMS:
        return []
    regions: list[Region] = []
    claimed = set(taken)
    for node in view.graph.nodes:
        if node.name not in claimed and (operands := operands_of(view, node)) is not None:
            region = _region(view, node, operands, ceilings, claimed)
            if region is not None:
                regions.append(region)
                claimed |= set(region.nodes)
    return regions


def _region(view: View, node: GraphNode, operands: Operands, ceilings: Ceilings, taken: set[str]) -> Region | None:
    m, n, k = sizes = sizes_of(operands)
    flops = 2.0 * operands.matrices * m * n * k
    if flops < LEAST_FLOPS:
        return None
    seed = _seed(view, node, operands)
    group = epilogue_of(view, node, seed, operands.matrices * m, n, taken, in_place=False)
    if not group:
        return None
    work = work_of(view, group)
    after = [view.nodes[name] for name in group[1:] if not is_alias(view.nodes[name])]
    eager = eager_gemm_s(flops, ceilings) + sum(eager_pointwise_s(view, other, ceilings) for other in after)
    terms = TERMS[ceilings.target]
    tiling = tiling_of(operands, ceilings)
    if terms == "half":
        ours = 2 * ceilings.kernel_s + tiling.seconds
    else:
        moved = 4.0 * operands.matrices * ((m + n) * k + m * n)
        ours = ceilings.kernel_s + max(flops / (ceilings.flops * TF32_GAIN), moved / ceilings.bandwidth)
    if ours > WORTHWHILE * eager or workspace_floats(operands, tiling) > MOST_WORKSPACE:
        return None
    says = f"{_of(operands, sizes)} on tensor cores as two {'fp16' if terms == 'half' else 'tf32'} terms each"
    if work:
        says += f", then {', '.join(dict.fromkeys(work))} on its sums"
    write = partial(_write, group=tuple(group), seed=seed, operands=operands, tiling=tiling, terms=terms, says=says)
    return Region("split", tuple(group), write, eager, ours, says, (node.target.split(".")[1], *work))


def _of(operands: Operands, sizes: Sizes) -> str:
    m, n, k = sizes
    one = f"product of {m} × {k} and {k} × {n}"
    return one if operands.matrices == 1 else f"{operands.matrices} products of {m} × {k} and {k} × {n}"


def _seed(view: View, node: GraphNode, operands: Operands) -> Seed:
    """Makes the node's value the sums of the product, and what is added to them."""

    def seed(b: Builder) -> None:
        value = b.load(node.name)
        value.tensor, value.strides = ACCUMULATOR, contiguous(view.tensor(node.name).shape)
        if operands.alpha != 1:
            value = b.call("mul", value, operands.alpha)
        if operands.added is not None:
            added = b.load(operands.added)
            value = b.call("add", value, b.call("mul", added, operands.beta) if operands.beta != 1 else added)
        b.env[node.name] = value

    return seed


def _write(
    view: View, name: str, *, group: tuple[str, ...], seed: Seed, operands: Operands, tiling: Tiling, terms: str, says: str
) -> Written:
    nest = make_nest(view, group, seed, sizes_of(operands).n)
    product = Product(view, name, nest, group, operands.left.name, operands.right.name, comment_of(view, group, says), says)
    return emit_split_product(product, operands, tiling, terms)
