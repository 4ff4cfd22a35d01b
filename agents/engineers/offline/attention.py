"""Attention in float32 as one kernel on tensor cores, on a GPU: PyTorch's own operation, or written out with a softmax."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from agents.engineers.offline.builder import Builder, argument
from agents.engineers.offline.costs import Ceilings, eager_gemm_s, eager_pointwise_s
from agents.engineers.offline.emit.attention import Heads, Mask, Scores, emit_attention, masked_scores, scores_of_nest
from agents.engineers.offline.emit.calls import is_alias
from agents.engineers.offline.graph import View, contiguous, number, ref, short
from agents.engineers.offline.ir import ACCUMULATOR, Nest, NotFusible
from agents.engineers.offline.nests import make_nest
from agents.engineers.offline.operands import broadcast, matrices_of, side_of
from agents.engineers.offline.products import comment_of, covers
from agents.engineers.offline.regions import Region, Written
from agents.engineers.offline.rules import RULES
from agents.engineers.offline.tiling import LAUNCH_S, PROCESSORS, packing_s, panels
from gpu_runner.contracts import GraphNode

WIDEST = 64  # numbers of a head
LEAST_FLOPS = 5e8
LIBRARY_SHARE = 0.65  # of its products' rate, what PyTorch's own operation reaches in float32; as the next two, on an H200
STEP_S = 2.5e-6  # a multiprocessor's time for 128 queries and 64 keys
BLOCK_S = 9e-6  # before the first and after the last of those steps
WORTHWHILE = 0.9
SOFTMAX = frozenset({"aten.softmax.int", "aten._softmax.default"})
PRODUCTS = frozenset({"aten.matmul.default", "aten.bmm.default"})
Writer = Callable[[View], Scores]


def find_attention(view: View, ceilings: Ceilings, taken: set[str]) -> list[Region]:
    """One region per attention of float32 heads of at most 64 numbers."""
    if ceilings.target != "sm_90":
        return []
    regions: list[Region] = []
    claimed = set(taken)
    for node in view.graph.nodes:
        region = None
        if node.target == "aten.scaled_dot_product_attention.default":
            region = _whole(view, node, ceilings)
        elif node.target in PRODUCTS:
            region = _written_out(view, node, ceilings)
        if region is not None and not claimed & set(region.nodes):
            regions.append(region)
            claimed |= set(region.nodes)
    return regions


def _whole(view: View, node: GraphNode, ceilings: Ceilings) -> Region | None:
    """PyTorch's own operation, without dropout."""
    names = [ref(argument(node, place, "")) for place in range(3)]
    heads = _heads(view, node, names, turned=False)
    if heads is None or number(argument(node, 4, "dropout_p", 0.0)) != 0 or argument(node, 7, "enable_gqa", False):
        return None
    given, causal = argument(node, 3, "attn_mask"), bool(argument(node, 5, "is_causal", False))
    mask = _mask(view, ref(given), heads)
    if mask is None and given is not None:
        return None
    scale = number(argument(node, 6, "scale"))
    factor = heads.queries.depth**-0.5 if scale is None else float(scale)
    write = partial(masked_scores, scale=factor, causal=causal, mask=mask, inner=heads.batch[1])
    eager = eager_gemm_s(_flops(heads) / LIBRARY_SHARE, ceilings)
    return _region(view, (node.name,), heads, write, causal, eager, ceilings)


def _written_out(view: View, node: GraphNode, ceilings: Ceilings) -> Region | None:
    """A product of weights and values, where the weights are the softmax of a product and of pointwise work on it."""
    tail = [node.name]
    weights = ref(argument(node, 0, ""))
    while weights in view.nodes and short(view.nodes[weights].target) in ("clone", "dropout"):  # dropout that is off is a clone
        if short(view.nodes[weights].target) == "dropout" and argument(view.nodes[weights], 2, "train", True):
            return None
        tail.append(weights)
        weights = ref(argument(view.nodes[weights], 0, ""))
    if weights is None or weights not in view.nodes or view.nodes[weights].target not in SOFTMAX:
        return None
    softmax, spec = view.nodes[weights], view.tensor(weights)
    if argument(softmax, 1, "dim") not in (-1, len(spec.shape) - 1) or argument(softmax, 2, "dtype"):
        return None
    tail.append(weights)
    for product in view.graph.nodes[: view.index[weights]]:
        scores = view.spec(product.name)
        reached = view.after[product.name] >> view.index[weights] & 1
        if not reached or product.target not in PRODUCTS or scores is None or scores.shape != spec.shape:
            continue
        chain = (product.name, *_between(view, product.name, weights))
        group = {*chain, *tail}
        if any(view.used_outside(n, group) for n in group - {node.name}):
            continue
        names = [*(ref(argument(product, place, "")) for place in range(2)), ref(argument(node, 1, ""))]
        heads = _heads(view, node, names, turned=True)
        if heads is None or not view.convex(group) or _nest(view, chain, heads) is None:
            continue
        work = [view.nodes[n] for n in (*chain[1:], weights) if not is_alias(view.nodes[n])]
        eager = 2 * eager_gemm_s(_flops(heads) / 2, ceilings) + sum(eager_pointwise_s(view, n, ceilings) for n in work)
        write = partial(_scores_of_chain, chain=chain, heads=heads)
        return _region(view, tuple(view.order(group)), heads, write, False, eager, ceilings)
    return None


def _between(view: View, first: str, last: str) -> list[str]:
    """The nodes on paths from one to the other, both excluded."""
    here, there = view.index[first], view.index[last]
    return [n for n in view.nodes if view.before[n] >> here & 1 and view.after[n] >> there & 1]


def _nest(view: View, chain: Sequence[str], heads: Heads) -> Nest | None:
    """What makes a score of a sum of the chain's product; None where that is not pointwise."""
    if any(short(view.nodes[n].target) not in RULES for n in chain[1:]):
        return None

    def seed(b: Builder) -> None:
        value = b.load(chain[0])
        value.tensor, value.strides = ACCUMULATOR, contiguous(view.tensor(chain[0]).shape)
        b.env[chain[0]] = value

    try:
        nest = make_nest(view, chain, seed, heads.keys.rows)
    except NotFusible:
        return None
    whole = covers(nest, math.prod(heads.batch) * heads.queries.rows, heads.keys.rows)
    return nest if whole and len(nest.stores) == 1 and nest.stores[0].value.kind == "float" else None


def _scores_of_chain(view: View, *, chain: Sequence[str], heads: Heads) -> Scores:
    nest = _nest(view, chain, heads)
    assert nest is not None, "it was one when it was planned"
    return scores_of_nest(view, nest, heads.queries.rows)


def _heads(view: View, node: GraphNode, names: Sequence[str | None], turned: bool) -> Heads | None:
    """Queries, keys and values as the kernel reads them. `turned`: keys are given as width × keys, as a product takes them."""
    result = view.spec(node.name)
    queries, keys, values = (matrices_of(view, name) for name in names)
    if (
        result is None
        or len(result.shape) not in (3, 4)
        or result.stride[-1] != 1
        or queries is None
        or keys is None
        or values is None
    ):
        return None
    rank = len(result.shape) - 2
    if any(len(x.batch) > rank for x in (queries, keys, values)):
        return None
    if turned:
        keys = replace(keys, rows=keys.depth, depth=keys.rows)
    values = replace(values, rows=values.depth, depth=values.rows)
    q, k, v = (side_of(broadcast(x, 2)) for x in (queries, keys, values))
    batch, strides = (1, *result.shape)[-4:-2], (0, *result.stride)[-4:-1]
    if q is None or k is None or v is None or q.depth != k.depth or k.rows != v.depth or max(q.depth, v.rows) > WIDEST:
        return None
    if result.shape[-2:] != (q.rows, v.rows) or min(q.rows, k.rows) < 2 or min(q.depth, v.rows) < 2:
        return None
    return Heads(q, k, v, (batch[0], batch[1]), (strides[0], strides[1], strides[2]))


def _mask(view: View, name: str | None, heads: Heads) -> Mask | None:
    spec = view.spec(name) if name is not None else None
    if name is None or spec is None or spec.dtype not in ("float32", "bool") or len(spec.shape) > 4:
        return None
    missing = 4 - len(spec.shape)
    pairs = [(1, 0)] * missing + list(zip(spec.shape, spec.stride, strict=True))
    outer, inner, rows, columns = (stride if size > 1 else 0 for size, stride in pairs)
    return Mask(name, spec.dtype == "bool", outer, inner, rows, columns)


def _flops(heads: Heads) -> float:
    return 2.0 * math.prod(heads.batch) * heads.queries.rows * heads.keys.rows * (heads.queries.depth + heads.values.rows)


def _region(
    view: View, nodes: tuple[str, ...], heads: Heads, scores: Writer, causal: bool, eager: float, ceilings: Ceilings
) -> Region | None:
    sides = (heads.queries, heads.keys, heads.values)
    packing = sum(packing_s(side, heads.batch, ceilings) for side in sides)
    waves = panels(math.prod(heads.batch) * panels(heads.queries.rows, 128), PROCESSORS)
    steps = panels(heads.keys.rows, 64) * (0.6 if causal else 1.0)
    ours = 2 * ceilings.kernel_s + 4 * LAUNCH_S + packing + waves * (steps * STEP_S + BLOCK_S)
    if _flops(heads) < LEAST_FLOPS or ours > WORTHWHILE * eager:
        return None
    says = (
        f"attention of {math.prod(heads.batch)} heads, {heads.queries.rows} queries and {heads.keys.rows} keys, in one kernel"
    )
    says += " on tensor cores as two fp16 terms each"
    write = partial(_write, nodes=nodes, heads=heads, scores=scores, causal=causal, says=says)
    ops = tuple(dict.fromkeys(short(view.nodes[n].target) for n in nodes if not is_alias(view.nodes[n])))
    return Region("attention", nodes, write, eager, ours, says, ops)


def _write(view: View, name: str, *, nodes: tuple[str, ...], heads: Heads, scores: Writer, causal: bool, says: str) -> Written:
    return emit_attention(name, nodes, heads, scores(view), causal, comment_of(view, nodes, says), says)
