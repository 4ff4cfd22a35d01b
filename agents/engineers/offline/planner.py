"""The Planner: regions of one kind become one item of the to-do list, with the gain that bytes, arithmetic and op times predict."""

from __future__ import annotations

from collections.abc import Sequence

from agents.engineers.offline.costs import Ceilings
from agents.engineers.offline.graph import View, short
from agents.engineers.offline.opportunities import find_regions
from agents.engineers.offline.regions import Region
from agents.state import Todo
from gpu_runner.contracts import Analysis

SMALLEST_GAIN = 0.005  # of the whole forward: below this an item is not worth an attempt

# kind of region: (kind of todo, title for one, title for several)
TITLES = {
    "reduce": ("reduce", "Fuse {what} into one kernel", "Fuse {count} row reductions and norms into one kernel each"),
    "fuse": ("fuse", "Fuse {what} into one pass", "Fuse {count} pointwise chains into one pass each"),
    "gemm": ("epilogue", "Finish {what} inside the matrix product", "Finish {count} matrix products with what follows them"),
    "conv": ("epilogue", "Finish {what} inside the convolution", "Finish {count} convolutions with what follows them"),
    "depthwise": ("memory", "Write {what} as a direct loop", "Write {count} depthwise convolutions as direct loops"),
    "attention": ("fuse", "Fuse the attention, block by block", "Fuse {count} attentions, block by block"),
    "recurrent": (
        "fuse",
        "Run all steps of {what} in one kernel",
        "Run all steps of {count} recurrent layers in one kernel each",
    ),
    "scan": ("fuse", "Roll the unrolled recurrence back into one loop", "Roll {count} unrolled recurrences back into loops"),
}


def regions_of(analysis: Analysis) -> tuple[View, list[Region]]:
    """The graph and everything that could be done to it. The same analysis gives the same regions with the same keys."""
    assert analysis.graph is not None
    view = View(analysis.graph)
    regions = find_regions(view, Ceilings.of(analysis.device))
    _calibrate(view, regions, analysis)
    return view, regions


def _calibrate(view: View, regions: Sequence[Region], analysis: Analysis) -> None:
    """Replace estimated eager times by measured ones: each kind of operation's time, shared among its nodes by output size."""
    measured: dict[str, float] = {}
    for op in analysis.ops:
        name = op.op.replace("::", ".").removeprefix("aten.").split(".")[0]
        measured[name] = measured.get(name, 0.0) + op.time_ns * 1e-9
    sizes: dict[str, int] = {}
    for node in view.graph.nodes:
        sizes[short(node.target)] = sizes.get(short(node.target), 0) + _size(view, node.name)
    for region in regions:
        known = 0.0
        names = [n for n in region.nodes if short(view.nodes[n].target) in measured]
        for name in names:
            kind = short(view.nodes[name].target)
            known += measured[kind] * _size(view, name) / max(sizes[kind], 1)
        if known > 0 and {short(view.nodes[n].target) for n in region.nodes} & measured.keys() >= set(region.ops):
            region.eager_s = known
    total = (analysis.eager_ms or 0.0) * 1e-3
    estimated = sum(r.eager_s for r in regions)
    if total and estimated > total:
        for region in regions:
            scale = total / estimated
            region.eager_s *= scale
            region.kernel_s *= scale


def _size(view: View, name: str) -> int:
    return sum(spec.numel for spec in view.nodes[name].out if spec)


def make_todos(analysis: Analysis) -> tuple[tuple[Todo, ...], str]:
    """The to-do list, best first, and a note about what it rests on or why it is empty."""
    if analysis.graph is None:
        return (), f"There is nothing to plan on: {analysis.graph_reason or 'the program has no captured graph'}."
    view, regions = regions_of(analysis)
    total = (analysis.eager_ms or 0.0) * 1e-3 or sum(r.eager_s for r in regions) or 1.0
    kinds: dict[str, list[Region]] = {}
    for region in regions:
        kinds.setdefault(region.kind, []).append(region)
    todos = []
    for kind, members in kinds.items():
        gain = sum(r.gain_s for r in members)
        if gain < SMALLEST_GAIN * total:
            continue
        todos.append((gain, _todo(view, kind, members, gain, total)))
    todos.sort(key=lambda pair: -pair[0])
    left = {short(n.target) for n in view.graph.nodes} - {op for r in regions for op in r.ops}
    note = f"{len(view.graph.nodes)} operations captured, {sum(len(r.nodes) for r in regions)} of them in {len(regions)} possible kernels."
    if not todos:
        note += f" None promises a gain; what takes the time stays with PyTorch: {', '.join(sorted(left)[:8])}."
    return tuple(todo for _, todo in todos), note


def _todo(view: View, kind: str, members: list[Region], gain: float, total: float) -> Todo:
    todo_kind, one, several = TITLES[kind]
    what = _words(members[0].ops)
    title = (one if len(members) == 1 else several).format(what=what, count=len(members))
    eager_ms, ours_ms = (1e3 * sum(getattr(r, name) for r in members) for name in ("eager_s", "kernel_s"))
    why = f"Eager spends about {eager_ms:.2f} ms here; {members[0].says} should take about {ours_ms:.2f} ms."
    nodes = tuple(n for r in members for n in r.nodes)
    shapes = dict.fromkeys(f"float32 {list(spec.shape)}" for r in members if (spec := view.spec(r.nodes[-1])))
    return Todo(
        id="",
        kind=todo_kind,
        title=title,
        why=why,
        ops=tuple(dict.fromkeys(op for r in members for op in r.ops)),
        nodes=nodes[:200],
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
