"""Matrix products and convolutions whose results go straight on into pointwise work: one kernel for both."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from agents.engineers.offline.builder import Builder, argument
from agents.engineers.offline.costs import Ceilings, eager_gemm_s, eager_pointwise_s, our_gemm_s
from agents.engineers.offline.emit.calls import is_alias
from agents.engineers.offline.emit.convolution import Form, emit_convolution, emit_depthwise
from agents.engineers.offline.emit.epilogue import Product, is_full
from agents.engineers.offline.emit.gemm import emit_linear
from agents.engineers.offline.emit.winograd import FEWEST, MOST, emit_winograd
from agents.engineers.offline.graph import View, is_contiguous, ref, short
from agents.engineers.offline.ir import ACCUMULATOR, Nest, NotFusible
from agents.engineers.offline.nests import make_nest
from agents.engineers.offline.regions import Region, Written
from agents.engineers.offline.rules import RULES, VIEWS
from gpu_runner.contracts import GraphNode

Seed = Callable[[Builder], None]
MAX_EPILOGUE = 16


def find_products(view: View, ceilings: Ceilings, taken: set[str]) -> list[Region]:
    """One region per linear layer or 2-d convolution of the forms that the kernels cover."""
    regions = []
    claimed = set(taken)
    for node in view.graph.nodes:
        if node.name in claimed:
            continue
        region = None
        if node.target == "aten.linear.default":
            region = _linear(view, node, ceilings, claimed)
        elif node.target == "aten.conv2d.default":
            region = _convolution(view, node, ceilings, claimed)
        if region is not None:
            regions.append(region)
            claimed |= set(region.nodes)
    return regions


def seed_product(node: GraphNode, bias: str | None, channel: int) -> Seed:
    """Makes a product's value the sums in the accumulator, plus the bias along dimension `channel` (negative) of the result."""

    def seed(b: Builder) -> None:
        value = b.load(node.name)
        value.tensor = ACCUMULATOR
        if bias is not None:
            vector = b.load(bias)
            value = b.call("add", value, b.view_as(vector, (*vector.dims, *[()] * (-1 - channel))))
        b.env[node.name] = value

    return seed


def epilogue_of(
    view: View,
    node: GraphNode,
    seed: Callable[[Builder], None],
    rows: int,
    columns: int,
    taken: set[str],
    in_place: bool = True,
) -> list[str]:
    """The nodes after the product that can be done on its blocks: grown along execution order while they fit.

    `in_place`: one of the results holds the sums until then, so it must be as large as the product and row-major.
    """
    group = [node.name]

    def fits(names: list[str]) -> bool:
        try:
            nest = make_nest(view, names, seed, columns)
            return covers(nest, rows, columns) and (not in_place or any(is_full(nest, store) for store in nest.stores))
        except NotFusible:
            return False

    if not fits(group):
        return []
    for name in view.order(n for n in view.nodes if view.index[n] > view.index[node.name]):
        if len(group) > MAX_EPILOGUE:
            break
        if name in taken or not any(operand in group for operand in view.operands(view.nodes[name])):
            continue
        if view.nodes[name].target != "getitem" and short(view.nodes[name].target) not in RULES:
            continue
        union = [*group, name]
        if fits(union) and view.convex(set(union)):
            group = union
        elif view.nodes[name].target != "getitem" and short(view.nodes[name].target).startswith("_native_batch_norm"):
            picks = [u for u in view.users[name] if view.nodes[u].target == "getitem"]
            if fits([*union, *picks]) and view.convex({*union, *picks}):
                group = [*union, *picks]
    while len(group) > 1 and is_alias(view.nodes[group[-1]]) and view.nodes[group[-1]].target != "getitem":
        group.pop()  # a view at the end is free in PyTorch
    return group


def covers(nest: Nest, rows: int, columns: int) -> bool:
    """Whether the nest walks exactly the product's result, row by row as the sums come, its last dimension as the vector."""
    if nest.reduced or len(nest.kept) != 1 or nest.kept[0].size != columns:
        return False
    sums = next(v for v in nest.values if v.tensor == ACCUMULATOR)
    step = 1
    for axis in reversed([*nest.outer, *nest.kept]):
        if sums.stride_of(axis) != step:
            return False
        step *= axis.size
    return step == rows * columns


def work_of(view: View, group: list[str]) -> list[str]:
    """What the epilogue really computes, without views."""
    names = [n for n in group[1:] if not is_alias(view.nodes[n]) and short(view.nodes[n].target) not in VIEWS]
    return [short(view.nodes[n].target) for n in names]


def _operands(view: View, node: GraphNode) -> tuple[str, str] | None:
    """What a product multiplies, when that and its result are float32 tensors that lie row-major."""
    source, weight = ref(argument(node, 0, "")), ref(argument(node, 1, ""))
    if source is None or weight is None:
        return None
    specs = [view.spec(name) for name in (source, weight, node.name)]
    plain = all(s is not None and s.dtype == "float32" and is_contiguous(s) for s in specs)
    return (source, weight) if plain else None


def _linear(view: View, node: GraphNode, ceilings: Ceilings, taken: set[str]) -> Region | None:
    operands = _operands(view, node)
    if operands is None:
        return None
    source, weight = operands
    w, y = view.tensor(weight), view.tensor(node.name)
    n, k = w.shape
    m = y.numel // n
    if m < 32 or n < 16 or k < 16:  # packing the weight costs about as much as multiplying ten rows with it
        return None
    seed = seed_product(node, ref(argument(node, 2, "bias")), -1)
    group = epilogue_of(view, node, seed, m, n, taken)
    work = work_of(view, group)
    if not group:
        return None
    flops = 2.0 * m * n * k
    after = [view.nodes[name] for name in group[1:] if not is_alias(view.nodes[name])]
    eager = eager_gemm_s(flops, ceilings) + sum(eager_pointwise_s(view, other, ceilings) for other in after)
    ours = our_gemm_s(flops, w.nbytes + y.nbytes, ceilings)
    says = f"linear {k} → {n} on {m} rows"
    if work:
        says += f", then {', '.join(dict.fromkeys(work))} on each block of the result"
    write = partial(
        _write_linear, node=node, group=tuple(group), seed=seed, source=source, weight=weight, sizes=(m, n, k), says=says
    )
    return Region("gemm" if work else "product", tuple(group), write, eager, ours, says, ("linear", *work))


def _write_linear(
    view: View, name: str, *, node: GraphNode, group: tuple[str, ...], seed: Seed, source: str, weight: str,
    sizes: tuple[int, int, int], says: str,
) -> Written:  # fmt: skip
    nest = make_nest(view, group, seed, sizes[1])
    return emit_linear(Product(view, name, nest, group, source, weight, comment_of(view, group, says), says), sizes)


def _convolution(view: View, node: GraphNode, ceilings: Ceilings, taken: set[str]) -> Region | None:
    operands = _operands(view, node)
    if operands is None:
        return None
    source, weight = operands
    x, w, y = view.tensor(source), view.tensor(weight), view.tensor(node.name)
    if len(x.shape) != 4:
        return None
    stride, padding, dilation = (
        _pair(argument(node, k, n, d)) for k, n, d in ((3, "stride", 1), (4, "padding", 0), (5, "dilation", 1))
    )
    groups = argument(node, 6, "groups", 1)
    if stride is None or padding is None or dilation is None:
        return None
    images, channels = x.shape[:2]
    outputs, _, kh, kw = w.shape
    pixels = y.shape[2] * y.shape[3]
    depthwise = groups == channels == outputs and dilation == (1, 1)
    if (groups != 1 and not depthwise) or pixels < 16:
        return None
    fewer = (kh, kw) == (3, 3) and stride == dilation == (1, 1) and FEWEST <= channels <= MOST and outputs >= FEWEST
    if not depthwise and kh * kw > 1 and not fewer:
        return None  # PyTorch's blocked convolutions beat packing each block here; what follows them is fused on its own
    seed = seed_product(node, ref(argument(node, 2, "bias")), -3)
    group = epilogue_of(view, node, seed, images * outputs, pixels, taken)
    if not group:
        return None
    work = work_of(view, group)
    flops = 2.0 * y.numel * (channels // groups) * kh * kw
    after = sum(eager_pointwise_s(view, view.nodes[g], ceilings) for g in group[1:] if not is_alias(view.nodes[g]))
    then = f", then {', '.join(dict.fromkeys(work))}" if work else ""
    if depthwise:
        says = f"depthwise {kh} × {kw} convolution of {channels} channels{then}, plane by plane in cache"
        eager = ceilings.call_s + flops / (ceilings.flops / 30) + after
        ours = ceilings.kernel_s + max(flops / (ceilings.flops / 6), (x.nbytes + y.nbytes) / ceilings.bandwidth)
    elif fewer:
        says = f"3 × 3 convolution {channels} → {outputs} by Winograd's algorithm{then} on each row of tiles"
        eager = eager_gemm_s(flops, ceilings) + after
        ours = our_gemm_s(flops * 0.6, x.nbytes + y.nbytes, ceilings)
    else:
        says = f"{kh} × {kw} convolution {channels} → {outputs}{then} on each block of the result"
        eager = eager_gemm_s(flops * 1.2, ceilings) + (x.nbytes + y.nbytes) / ceilings.bandwidth + after
        ours = our_gemm_s(flops * 1.1, x.nbytes + y.nbytes, ceilings)
    kind = "depthwise" if depthwise else "winograd" if fewer else "conv"
    write = partial(
        _write_convolution, kind=kind, group=tuple(group), seed=seed, source=source, weight=weight,
        form=(stride, padding, dilation), says=says,
    )  # fmt: skip
    return Region(kind, tuple(group), write, eager, ours, says, ("conv2d", *work))


def _write_convolution(
    view: View, name: str, *, kind: str, group: tuple[str, ...], seed: Seed, source: str, weight: str, form: Form, says: str,
) -> Written:  # fmt: skip
    result = view.tensor(group[0])
    nest = make_nest(view, group, seed, result.shape[2] * result.shape[3])
    emit = {"depthwise": emit_depthwise, "winograd": emit_winograd, "conv": emit_convolution}[kind]
    return emit(Product(view, name, nest, group, source, weight, comment_of(view, group, says), says), form)


def _pair(value: object) -> tuple[int, int] | None:
    if isinstance(value, int):
        return value, value
    if isinstance(value, (list, tuple)) and all(isinstance(v, int) for v in value):
        return (int(value[0]), int(value[-1])) if len(value) in (1, 2) else None
    return None


def comment_of(view: View, group: tuple[str, ...], says: str) -> str:
    lines = list(dict.fromkeys(view.nodes[n].line for n in group if view.nodes[n].line))
    return f"Fuses {says}." + (f"\nIn the reference: {'; '.join(lines[:3])}" if lines else "")
