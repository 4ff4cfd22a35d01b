"""The Planner: regions of one kind become one to-do, with the gain that bytes, arithmetic and op times predict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from agents.diagnosis import Diagnosis
from agents.engineers.offline.costs import Ceilings, eager_s
from agents.engineers.offline.graph import View, short
from agents.engineers.offline.opportunities import Way, find_ways
from agents.engineers.offline.regions import LAYOUT, REPLAY, Region
from agents.state import Todo
from gpu_runner.contracts import Analysis, Graph, canonical_json

SMALLEST_GAIN = 0.005  # of the whole forward: below this an item is not worth an attempt
NEARLY = 0.9  # of what kernels gain on the program as captured: what another layout must promise, in their place

# kind of region: (kind of todo, title for one, title for several)
TITLES = {
    "reduce": ("reduce", "Fuse {what} into one kernel", "Fuse {count} row reductions and norms into one kernel each"),
    "fuse": ("fuse", "Fuse {what} into one pass", "Fuse {count} pointwise chains into one pass each"),
    "gemm": ("epilogue", "Finish {what} inside the matrix product", "Finish {count} matrix products with what follows them"),
    "product": ("other", "Multiply {what} in the widest vectors", "Multiply {count} linear layers in the widest vectors"),
    "conv": ("epilogue", "Finish {what} inside the convolution", "Finish {count} convolutions with what follows them"),
    "winograd": (
        "algebra",
        "Write {what} with fewer multiplications",
        "Write {count} 3 × 3 convolutions with fewer multiplications",
    ),
    "depthwise": ("memory", "Write {what} as a direct loop", "Write {count} depthwise convolutions as direct loops"),
    "attention": ("fuse", "Fuse the attention, block by block", "Fuse {count} attentions, block by block"),
    "recurrent": (
        "fuse",
        "Run all steps of {what} in one kernel",
        "Run all steps of {count} recurrent layers in one kernel each",
    ),
    "split": (
        "algebra",
        "Multiply {what} on tensor cores, split without loss",
        "Multiply {count} products on tensor cores, split without loss",
    ),
    "running": ("memory", "Write {what} in one pass over memory", "Write {count} running sums and products in one pass each"),
    LAYOUT: ("memory", "Run its convolutions channels last, with what follows them in the same layout", ""),
    REPLAY: ("host", "Start the whole program as one CUDA graph", ""),
    "scan": ("fuse", "Roll the unrolled recurrence back into one loop", "Roll {count} unrolled recurrences back into loops"),
}


def ways_of(analysis: Analysis) -> tuple[Way, ...]:
    """The ways to write the program, with everything that could be done in each. The same analysis gives the same keys."""
    assert analysis.graph is not None
    ceilings = Ceilings.of(analysis.device)
    found = _found(canonical_json(analysis.graph), ceilings)
    ways = tuple(Way(way.view, tuple(replace(region) for region in way.regions)) for way in found)
    for way in ways:
        _calibrate(way.view, way.regions, analysis, ceilings)
    return ways


def regions_of(analysis: Analysis) -> tuple[View, list[Region]]:
    """The first way: as captured."""
    way = ways_of(analysis)[0]
    return way.view, list(way.regions)


@lru_cache(maxsize=4)
def _found(graph: str, ceilings: Ceilings) -> tuple[Way, ...]:
    """Planning and each coding step ask for the same graph; a long unrolled one takes seconds to search."""
    return find_ways(Graph.model_validate_json(graph), ceilings)


# What the profiler calls an operation of the graph, where the names differ.
PROFILED = {
    "layer_norm": ("native_layer_norm",),
    "group_norm": ("native_group_norm",),
    "_native_batch_norm_legit_no_training": ("native_batch_norm", "batch_norm"),
    "_native_batch_norm_legit_functional": ("native_batch_norm", "batch_norm"),
    "linear": ("addmm", "mm"),
    "matmul": ("bmm", "mm"),
    "conv2d": ("mkldnn_convolution", "convolution_overrideable", "_slow_conv2d_forward"),
    "softmax": ("_softmax",),
    "log_softmax": ("_log_softmax",),
    "cross_entropy_loss": ("_log_softmax", "nll_loss_forward"),
    "embedding": ("index_select", "embedding"),
    "lstm": ("mkldnn_rnn_layer", "lstm"),
    "adaptive_avg_pool2d": ("mean", "_adaptive_avg_pool2d"),
    "scaled_dot_product_attention": ("_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_attention_math"),
}


def _calibrate(view: View, regions: Sequence[Region], analysis: Analysis, ceilings: Ceilings) -> None:
    """Bring the estimates to this machine, as it is now.

    An operation that the profiler timed takes that time, shared among its nodes as the estimates say; the others are scaled so
    that everything adds up to the measured forward. Our kernel is scaled as its nodes were: a machine that runs them slower in
    eager than its ceilings promise, for instance because it is shared, runs the kernel slower too. One that runs them faster,
    because it has wider vectors or keeps the tensors in cache, runs the kernel faster.
    """
    estimates = {n.name: eager_s(view, n, ceilings) for n in view.graph.nodes}
    whole = sum(estimates.values())
    total = (analysis.eager_ms or 0.0) * 1e-3
    if not total or not whole:
        return
    factor = total / whole
    profiled: dict[str, float] = {}
    for op in analysis.ops:
        name = op.op.replace("::", ".").removeprefix("aten.").split(".")[0]
        profiled[name] = profiled.get(name, 0.0) + op.time_ns * 1e-9
    seen = sum(profiled.values())
    kinds: dict[str, float] = {}
    for node in view.graph.nodes:
        kinds[short(node.target)] = kinds.get(short(node.target), 0.0) + estimates[node.name]
    for region in regions:
        if region.kind == LAYOUT:  # of the whole program, and estimated against the program as captured
            region.kernel_s, region.eager_s = region.kernel_s * total / region.eager_s, total
            continue
        region.eager_s = 0.0
        for name in region.nodes:
            kind = short(view.nodes[name].target)
            timed = sum(profiled.get(n, 0.0) for n in dict.fromkeys((kind, *PROFILED.get(kind, ()))))
            if timed and seen and kinds[kind]:
                region.eager_s += total * timed / seen * estimates[name] / kinds[kind]
            else:
                region.eager_s += estimates[name] * factor
        expected = sum(estimates[name] for name in region.nodes)
        region.kernel_s *= region.eager_s / expected


def make_todos(analysis: Analysis, found: Diagnosis | None = None) -> tuple[tuple[Todo, ...], str]:
    """The to-do list, best first, and a note about what it rests on or why it is empty. `found`: of the reference's profile,
    whose rows the items cite."""
    if analysis.graph is None:
        return (), f"There is nothing to plan on: {analysis.graph_reason or 'the program has no captured graph'}."
    ways = ways_of(analysis)
    view, regions = ways[0].view, ways[0].regions
    total = (analysis.eager_ms or 0.0) * 1e-3 or sum(r.eager_s for r in regions) or 1.0
    kinds: dict[str, list[Region]] = {}
    for region in regions:
        kinds.setdefault(region.kind, []).append(region)
    todos = []
    for kind, members in kinds.items():
        gain = sum(r.gain_s for r in members)
        if gain < SMALLEST_GAIN * total:
            continue
        todos.append((gain, _todo(view, kind, members, gain, total, found)))
    for way in ways[1:]:
        whole, keys = way.regions[0], [r.key for r in way.regions if r.kind != REPLAY]
        captured = sum(r.gain_s for r in regions if r.kind != REPLAY)
        if whole.gain_s >= max(SMALLEST_GAIN * total, NEARLY * captured):
            todo = _todo(way.view, whole.kind, [whole], whole.gain_s, total, found)
            todos.append((whole.gain_s, todo.model_copy(update={"data": {"regions": keys}})))
    todos.sort(key=lambda pair: -pair[0])
    left = {short(n.target) for n in view.graph.nodes} - {op for r in regions for op in r.ops if r.kind != REPLAY}
    fused = [region for region in regions if region.kind != REPLAY]
    inside = sum(len(region.nodes) for region in fused)
    kernels = "1 possible kernel" if len(fused) == 1 else f"{len(fused)} possible kernels"
    note = f"{len(view.graph.nodes)} operations captured, {inside} of them in {kernels}."
    if found is not None and found.tells:
        note += f" {found.sentence}"
    if not todos:
        note += f" None promises a gain; what takes the time stays with PyTorch: {', '.join(sorted(left)[:8])}."
    return tuple(todo for _, todo in todos), note


def cited(ops: Sequence[str], found: Diagnosis | None) -> tuple[str, ...]:
    """Keys of the profile's rows that these operations of the graph are, the largest first."""
    names = {name for op in ops for name in (op, f"{op}_", *PROFILED.get(op, ()))}
    rows = found.rows if found else ()
    return tuple(row.key for row in rows if row.key.removeprefix("aten::") in names)


def _todo(view: View, kind: str, members: list[Region], gain: float, total: float, found: Diagnosis | None = None) -> Todo:
    todo_kind, one, several = TITLES[kind]
    what = _words(members[0].ops)
    title = (one if len(members) == 1 else several).format(what=what, count=len(members))
    eager_ms, ours_ms = (1e3 * sum(getattr(r, name) for r in members) for name in ("eager_s", "kernel_s"))
    why = f"Eager spends about {eager_ms:.2f} ms here; {members[0].says} should take about {ours_ms:.2f} ms."
    ops = tuple(dict.fromkeys(op for r in members for op in r.ops))
    rows = cited([short(view.nodes[n].target) for r in members for n in r.nodes], found)
    if found is not None and rows:
        shares = ", ".join(f"{key.removeprefix('aten::')} {found.share([key]):.0%}" for key in rows[:4])
        why += f" In the profile: {shares}."
    nodes = tuple(n for r in members for n in r.nodes)
    shapes = dict.fromkeys(f"float32 {list(spec.shape)}" for r in members if (spec := view.spec(r.nodes[-1])))
    return Todo(
        id="",
        kind=todo_kind,
        title=title,
        why=why,
        ops=ops,
        nodes=nodes[:200],
        rows=rows,
        constraints=(f"shapes: {', '.join(list(shapes)[:4])}", "same order of parameters, weights read at every call"),
        predicted=round(total / max(total - gain, 0.05 * total), 2),
        data={"regions": [r.key for r in members]},
    )


def _words(ops: Sequence[str]) -> str:
    names = [op.strip("_").replace("native_batch_norm_legit_no_training", "batch_norm") for op in dict.fromkeys(ops)]
    names = [n.replace("native_batch_norm_legit_functional", "batch_norm") for n in names]
    if len(names) > 4:
        return f"{', '.join(names[:3])} and {len(names) - 3} more"
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
