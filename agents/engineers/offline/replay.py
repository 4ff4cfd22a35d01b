"""The whole program as one CUDA graph: what that saves is the time in which the device waits for the host's next launch."""

from __future__ import annotations

from agents.engineers.offline.costs import Ceilings, eager_s, tensor_bytes
from agents.engineers.offline.emit.calls import is_alias
from agents.engineers.offline.graph import View, ref
from agents.engineers.offline.regions import REPLAY, Region
from agents.state import Todo
from gpu_runner.contracts import Analysis, GraphNode

RECURRENT = frozenset({"aten.lstm.input", "aten.gru.input", "aten.rnn_tanh.input", "aten.rnn_relu.input"})
PER_STEP = 2  # a product and the cell
SHORTEST_S = 1.5e-6  # of a kernel on the device, however little it does
REPLAY_S = 12e-6  # the host's part of a replay: copies in, one launch, copies out


def find_replay(view: View, ceilings: Ceilings, taken: set[str]) -> list[Region]:
    """One region over everything, unless the program changes its inputs or has next to no launches."""
    if any(o.kind == "input_mutation" for o in view.graph.outputs):
        return []
    works = [(launches_of(view, n), _device_s(view, n, ceilings)) for n in view.graph.nodes if not is_alias(n)]
    launches = sum(count for count, _ in works)
    if launches < 3:
        return []
    # An eager operator takes the longer of its launches and its work; the graph takes the work, and copies inputs and results.
    waits = sum(max(count * ceilings.call_s, work) for count, work in works)
    device = sum(work for _, work in works)
    copied = sum(tensor_bytes(view, i.name) for i in view.graph.inputs if i.kind == "input")
    copied += sum(tensor_bytes(view, o.ref) for o in view.graph.outputs if o.kind == "result" and o.ref)
    ours = device + REPLAY_S + 2 * copied / ceilings.bandwidth
    says = f"one graph in place of about {launches} launches by the host"
    eager = sum(eager_s(view, n, ceilings) for n in view.graph.nodes if not is_alias(n))
    names = tuple(n.name for n in view.graph.nodes)
    return [Region(REPLAY, names, Region.no_kernel, eager, ours * eager / waits, says, ("replay",))]


def launches_of(view: View, node: GraphNode) -> int:
    """Kernels that one operator starts: one, but for recurrent layers, which start some at every step of every layer."""
    if node.target not in RECURRENT:
        return 1
    x = view.spec(ref(node.args[0]) or "")
    if x is None or len(x.shape) != 3:
        return 1
    layers, bidirectional, batch_first = int(node.args[4]), bool(node.args[7]), bool(node.args[8])
    return PER_STEP * x.shape[1 if batch_first else 0] * layers * (2 if bidirectional else 1)


def _device_s(view: View, node: GraphNode, ceilings: Ceilings) -> float:
    count = launches_of(view, node)
    return max(eager_s(view, node, ceilings) - ceilings.call_s, count * SHORTEST_S)


def replay_unseen(analysis: Analysis) -> tuple[tuple[Todo, ...], str]:
    """The to-do list for a program without a captured graph, and a note: its own forward can still be started as one graph."""
    launches = sum(op.count for op in analysis.ops)
    todo = Todo(
        id="",
        kind="host",
        title="Start the whole program as one CUDA graph",
        why=f"The host starts about {launches or 'many'} operations one by one; a graph starts them all at once.",
        constraints=("runs as it is when it waits for the device or keeps something from call to call",),
        data={"regions": [UNSEEN.key]},
    )
    return (todo,), f"No kernel can be planned, since {analysis.graph_reason or 'the program has no captured graph'}."


UNSEEN = Region(REPLAY, ("forward",), Region.no_kernel, 0.0, 0.0, "one graph of whatever the program starts", ("replay",))
