"""Finds pointwise chains, reductions and norms that fuse: grown greedily in execution order, with the lowering as oracle."""

from __future__ import annotations

from collections.abc import Callable

from agents.engineers.offline.costs import Ceilings, eager_pointwise_s, fused_s, is_apart
from agents.engineers.offline.emit.calls import is_alias
from agents.engineers.offline.emit.cuda_forms import settle
from agents.engineers.offline.emit.cuda_nest import emit_cuda_nest
from agents.engineers.offline.emit.host import Call
from agents.engineers.offline.emit.loops import emit_nest
from agents.engineers.offline.graph import View, refs, short
from agents.engineers.offline.ir import Nest, NotFusible
from agents.engineers.offline.layouts import RELAID
from agents.engineers.offline.nests import make_nest
from agents.engineers.offline.regions import Region, Written
from agents.engineers.offline.rules import RULES, VIEWS
from agents.engineers.offline.statistics import NORMALISED

MAX_NODES = 24  # a kernel that one can still read; growth is tried node by node, so this also bounds the planning time
# Operations that gain as a kernel of their own: eager makes several passes, or uses slower mathematics.
ALONE = frozenset(
    "layer_norm group_norm instance_norm rms_norm softmax _softmax log_softmax _log_softmax gelu silu tanh logsumexp mish "
    "softplus elu cross_entropy_loss _native_batch_norm_legit_functional _native_batch_norm_legit_no_training normalised "
    "relaid".split()
)
NORMS = frozenset(
    "layer_norm group_norm instance_norm rms_norm _native_batch_norm_legit_functional "
    "_native_batch_norm_legit_no_training normalised".split()
)
# Not on a CPU, whose loops would not become vectors: the choice at every point, and sums of very few neighbours.
ON_GPU_ALONE = frozenset("cat max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d".split())
WORTHWHILE = 0.9  # of eager's time: what a kernel on a GPU may take, where eager's own are already good
FOLLOWING_S = 2.5e-6  # of each further kernel of a call, beside its work
SMALLEST = 4096  # points below which a fused kernel saves calls but no memory traffic


def find_fusions(view: View, ceilings: Ceilings, taken: set[str]) -> list[Region]:
    """Regions over the nodes that nobody has taken yet."""
    groups: list[set[str]] = []
    home: dict[str, set[str]] = {}
    for node in view.graph.nodes:
        name = short(node.target) if node.target != "getitem" else "getitem"
        if node.name in taken or name not in RULES or node.name in home or (ceilings.target == "cpu" and name in ON_GPU_ALONE):
            continue
        # An operation with several results is done together with the nodes that pick them apart.
        picks = {u for u in view.users[node.name] if view.nodes[u].target == "getitem"} if not node.single else set()
        near: list[set[str]] = []
        for operand in view.operands(node):
            group = home.get(operand)
            if group is not None and group not in near:
                near.append(group)
        choices = [near] if near else []
        if len(near) > 1:
            choices += [[g] for g in reversed(near)]
        if name == RELAID or (name not in VIEWS and name != "getitem"):
            choices.append([])
        for chosen in choices:
            union = set().union({node.name}, picks, *chosen)
            if len(union) <= MAX_NODES and view.convex(union) and not _joined(view, union) and _works(view, union, ceilings):
                for group in chosen:
                    groups.remove(group)
                groups.append(union)
                for member in union:
                    home[member] = union
                break
    regions = []
    for group in groups:
        region = _region(view, ceilings, _trim(view, group))
        if region is not None:
            regions.append(region)
    return regions


def _joined(view: View, group: set[str]) -> bool:
    """Whether statistics and what is made with them are one kernel again."""
    made = (view.nodes[n] for n in group if view.nodes[n].target == NORMALISED)
    return any(name in group for node in made for name in refs(list(node.args[1:3])))


def _works(view: View, group: set[str], ceilings: Ceilings) -> bool:
    try:
        nest = make_nest(view, group)
        if ceilings.target != "cpu":
            settle(nest)
    except NotFusible:
        return False
    return True


def _trim(view: View, group: set[str]) -> set[str]:
    """Without views at the end: as PyTorch views of the stored result they are free."""
    changed = True
    group = set(group)
    while changed:
        changed = False
        for name in reversed(view.order(group)):
            inside = [u for u in view.users[name] if u in group]
            if is_alias(view.nodes[name]) and not inside and not _picks(view, name, group):
                group.discard(name)
                changed = True
    return group


def _picks(view: View, name: str, group: set[str]) -> bool:
    """Whether a getitem takes a result of an operation with several results, which must be done in the kernel."""
    node = view.nodes[name]
    return node.target == "getitem" and node.args[0]["ref"] in group


def _region(view: View, ceilings: Ceilings, group: set[str]) -> Region | None:
    nodes = view.order(group)
    real = [n for n in nodes if not is_alias(view.nodes[n]) and short(view.nodes[n].target) not in ("clone", "dropout")]
    ops = [short(view.nodes[n].target) for n in real]
    if not real or (len(real) < 2 and ops[0] not in ALONE):
        return None
    try:
        nest = make_nest(view, nodes)
        staged = ceilings.target != "cpu" and settle(nest) == "staged"
        twice = staged and any(a in nest.reduced for s in nest.stores for dim in s.dims for a in dim)
    except NotFusible:
        return None
    if nest.elements < SMALLEST and len(real) < 4:
        return None
    work = [view.nodes[n] for n in real]
    eager = sum(eager_pointwise_s(view, node, ceilings) for node in work)
    reads = (*nest.loads, *(nest.loads if twice else ()))  # for the sums, and for what is made with them
    ours = fused_s(view, reads, tuple(s.name for s in nest.stores), work, ceilings) + staged * 2 * FOLLOWING_S
    # Of a norm in two, both are ours or neither: PyTorch has no operation for a half.
    if ceilings.target != "cpu" and ours > WORTHWHILE * eager and not any(is_apart(view, node) for node in work):
        return None
    kind = "reduce" if nest.reduced or any(op in NORMS for op in ops) else "fuse"
    says = f"{', '.join(dict.fromkeys(ops))} in one pass over memory"
    return Region(kind, tuple(nodes), _writer(nest, says, ceilings.target), eager, ours, says, tuple(ops))


def describe(nest: Nest, view: View, says: str, target: str) -> str:
    """The comment at the head of a kernel: what it fuses and, on a CPU, its loops and why they are so."""
    lines = list(dict.fromkeys(view.nodes[n].line for n in nest.nodes if view.nodes[n].line))
    text = f"Fuses {says}.\n"
    if lines:
        text += f"In the reference: {'; '.join(lines[:4])}\n"
    if target != "cpu":
        return text.rstrip()
    outer = " × ".join(str(a.size) for a in nest.outer) or "one"
    if nest.reduced:
        row = " × ".join(str(a.size) for a in nest.reduced)
        text += f"Loops: {outer} independent rows share out over the threads; each row reduces {row} numbers"
        text += f", {' × '.join(str(a.size) for a in nest.kept)} sums at a time" if nest.kept else ""
        text += ". A row stays in cache between its passes, so memory is read once."
    else:
        text += f"Loops: {outer} rows over the threads, the innermost {nest.kept[-1].size if nest.kept else 1} as vectors; "
        text += "every operand is read once and no intermediate tensor is written."
    return text


def _writer(nest: Nest, says: str, target: str) -> Callable[[View, str], Written]:
    on_gpu = emit_cuda_nest, ("cudamath.cuh", "reduce.cuh", "vectors.cuh")
    emit, headers = (emit_nest, ("fastmath.h",)) if target == "cpu" else on_gpu

    def write(view: View, name: str) -> Written:
        def dtype(tensor: str) -> str:
            return view.tensor(tensor).dtype

        fresh = make_nest(view, nest.nodes)
        kernel = emit(fresh, name, describe(fresh, view, says, target), dtype)
        call = Call(name, nest.nodes, kernel.inputs, kernel.outputs, says, kernel.scratch)
        shape = emit(make_nest(view, nest.nodes), "kernel", says, dtype, plain=True).source
        return Written(kernel.source, call, headers, shape)

    return write
