"""The whole program as one CUDA graph: what that saves is the time in which the device waits for the host's next launch."""

from __future__ import annotations

from agents.engineers.offline.costs import Ceilings, eager_s, tensor_bytes
from agents.engineers.offline.emit.calls import is_alias
from agents.engineers.offline.graph import View
from agents.engineers.offline.regions import REPLAY, Region, Written
from agents.state import Todo
from gpu_runner.contracts import Analysis

REPLAY_S = 12e-6  # the host's part of a replay: copies in, one launch, copies out


def find_replay(view: View, ceilings: Ceilings, taken: set[str]) -> list[Region]:
    """One region over everything, unless the program changes its inputs or has next to no launches."""
    if any(o.kind == "input_mutation" for o in view.graph.outputs):
        return []
    launches = [n for n in view.graph.nodes if not is_alias(n)]
    if len(launches) < 3:
        return []
    eager = sum(eager_s(view, n, ceilings) for n in launches)
    device = sum(eager_s(view, n, ceilings) - ceilings.call_s for n in launches)
    # An eager operator takes the longer of its launch and its work; the graph takes the work, and copies inputs and results.
    longer = sum(max(ceilings.call_s, eager_s(view, n, ceilings) - ceilings.call_s) for n in launches)
    copied = sum(tensor_bytes(view, i.name) for i in view.graph.inputs if i.kind == "input")
    copied += sum(tensor_bytes(view, o.ref) for o in view.graph.outputs if o.kind == "result" and o.ref)
    ours = device + REPLAY_S + 2 * copied / ceilings.bandwidth
    says = f"one graph of {len(launches)} launches, in place of {len(launches)} calls by the host,"
    return [
        Region(REPLAY, tuple(n.name for n in view.graph.nodes), _no_kernel, eager, ours * eager / longer, says, ("replay",))
    ]


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


def _no_kernel(view: View, name: str) -> Written:
    raise LookupError("a replayed program has no kernel of its own")


UNSEEN = Region(REPLAY, ("forward",), _no_kernel, 0.0, 0.0, "one graph of whatever the program starts", ("replay",))
