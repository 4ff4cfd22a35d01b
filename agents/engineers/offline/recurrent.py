"""LSTM and GRU layers: eager starts several operations per time step; one kernel runs all steps."""

from __future__ import annotations

from functools import partial

from agents.engineers.offline.costs import KERNEL_S, Ceilings
from agents.engineers.offline.emit.gemm import WIDEST
from agents.engineers.offline.emit.host import Call
from agents.engineers.offline.emit.text import Lines, comment
from agents.engineers.offline.graph import View, is_contiguous, ref
from agents.engineers.offline.regions import Region, Written
from gpu_runner.contracts import GraphNode

GATES = {"aten.lstm.input": 4, "aten.gru.input": 3}
STEP_S = 12e-6  # eager's calls per time step and layer, beyond the arithmetic


def find_recurrent(view: View, ceilings: Ceilings, taken: set[str]) -> list[Region]:
    """One region per unidirectional LSTM or GRU without dropout or projections."""
    regions = []
    for node in view.graph.nodes:
        if node.target in GATES and node.name not in taken:
            region = _region(view, node, ceilings)
            if region is not None:
                regions.append(region)
    return regions


def _region(view: View, node: GraphNode, ceilings: Ceilings) -> Region | None:
    gates = GATES[node.target]
    source, states, weights, biases, layers, dropout, train, bidirectional, batch_first = node.args
    x = view.spec(ref(source) or "")
    first = view.spec(ref(weights[0]) or "") if weights else None
    if x is None or first is None or len(x.shape) != 3 or x.dtype != "float32" or not is_contiguous(x):
        return None
    hidden = first.shape[0] // gates
    per_layer = 4 if biases else 2
    if bidirectional or (dropout and train) or len(weights) != per_layer * layers:
        return None
    names = [n for w in weights if (n := ref(w))]
    states = [states] if gates == 3 else list(states)
    initial = [n for s in states if (n := ref(s))]
    specs = [view.spec(n) for n in (*names, *initial)]
    if len(names) != len(weights) or any(s is None or not is_contiguous(s) or s.dtype != "float32" for s in specs):
        return None
    if any(s is not None and s.shape[-1] != hidden for s in specs[1 : len(names) : per_layer]):
        return None  # a projection makes the state narrower than the cell
    picks = [u for u in view.users[node.name] if view.nodes[u].target == "getitem"]
    if len(picks) != len(view.users[node.name]):
        return None
    batch, time = (x.shape[0], x.shape[1]) if batch_first else (x.shape[1], x.shape[0])
    width = x.shape[2]
    flops = sum(2.0 * batch * time * gates * hidden * ((width if k == 0 else hidden) + hidden) for k in range(layers))
    eager = flops / (0.35 * ceilings.flops) + layers * time * STEP_S
    ours = KERNEL_S + flops / (0.55 * ceilings.flops) + layers * time * 1.5e-6
    kind = "LSTM" if gates == 4 else "GRU"
    depth = f"{layers} layer{'s' if layers > 1 else ''}"
    says = f"{kind} of {depth}, {time} steps, batch {batch}, {width} → {hidden}, all steps in one kernel"
    nodes = (node.name, *view.order(picks))
    write = partial(
        _write, node=node, nodes=nodes, names=names, initial=initial, sizes=(batch, time, width, hidden, layers), says=says
    )
    return Region("recurrent", nodes, write, eager, ours, says, (kind.lower(),))


def _write(
    view: View, name: str, *, node: GraphNode, nodes: tuple[str, ...], names: list[str], initial: list[str],
    sizes: tuple[int, int, int, int, int], says: str,
) -> Written:  # fmt: skip
    batch, time, width, hidden, layers = sizes
    gates = GATES[node.target]
    batch_first, per_layer = node.args[8], len(names) // layers
    rows, state = batch * time, batch * hidden
    picks = {view.nodes[n].args[1]: n for n in nodes[1:]}
    results = ["out", "h", "c"][: 3 if gates == 4 else 2]
    outputs = [picks[k] for k in range(len(results)) if k in picks]
    missing = [label for k, label in enumerate(results) if k not in picks]
    sizes_of = {"out": rows * hidden, "h": layers * state, "c": layers * state}
    room = -(-hidden // WIDEST) * WIDEST
    work = rows * gates * hidden + gates * room * (max(width, hidden) + hidden) + 3 * state
    scratch = [sizes_of[label] for label in missing] + ([rows * hidden] * min(layers - 1, 2)) + [work]
    out = Lines()
    where = f" Reference: {node.line}" if node.line else ""
    for line in comment(
        f"{says}.{where}\nLaunch: one parallel region per layer; recurrent.h says how the steps are shared out."
    ):
        out(line)
    out('#include "recurrent.h"\n')
    pointers = ["const float* x", *(f"const float* {s}0" for s in "hc"[: len(initial)])]
    weight_names = [f"{kind}{k}" for k in range(layers) for kind in ("w_ih", "w_hh", "b_ih", "b_hh")[:per_layer]]
    pointers += [f"const float* {w}" for w in weight_names]
    pointers += [f"float* {label}" for k, label in enumerate(results) if k in picks]
    pointers += [f"float* {label}" for label in missing]
    between = [f"between{k}" for k in range(min(layers - 1, 2))]
    pointers += [f"float* {b}" for b in between] + ["float* work"]
    steps = (time, 1) if batch_first else (1, batch)
    inner = (1, batch)  # between layers, and where nobody reads the whole output: all rows of one step side by side
    final = inner
    if 0 in picks:
        spec = view.tensor(picks[0])
        by_batch, by_time = spec.stride[0] // hidden, spec.stride[1] // hidden
        final = (by_batch, by_time) if batch_first else (by_time, by_batch)
    with out.block(f'extern "C" void {name}({", ".join(pointers)}) {{'):
        for k in range(layers):
            inputs = width if k == 0 else hidden
            source = "x" if k == 0 else between[(k - 1) % 2]
            target = "out" if k == layers - 1 else between[k % 2]
            biases = f"b_ih{k}, b_hh{k}" if per_layer == 4 else "nullptr, nullptr"
            at = f" + {k * state}" if k else ""
            cell = f"c0{at}" if gates == 4 else "nullptr"
            last = f"c{at}" if gates == 4 else "nullptr"
            read, written = (steps if k == 0 else inner), (final if k == layers - 1 else inner)
            shape = f"{{{', '.join(map(str, (batch, time, inputs, hidden, *read, *written)))}}}"
            out(f"recurrent::layer<{gates}>({shape},")
            out(f"    {source}, w_ih{k}, w_hh{k}, {biases}, h0{at}, {cell}, {target}, h{at}, {last}, work);")
    source_name = ref(node.args[0])
    assert source_name is not None
    call = Call(name, nodes, (source_name, *initial, *names), tuple(outputs), says, tuple(scratch))
    return Written(out.text(), call, ("fastmath.h", "gemm.h", "recurrent.h"))
