"""The engineer that needs no model, no key and no network: it knows the classical optimisations and when they pay.

Read it in this order: `graph` (questions to a captured graph), `ir`, `builder`, `rules` (ATen as values over axes), `nests`
(which loops), `fusions`, `products` and `recurrent` (what could be one kernel), `operands`, `tiling`, `split_products`,
`attention`, `depthwise`, `scans`, `rewrites`, `padding`, `statistics`, `layouts` and `replay` (what a GPU can do besides),
`opportunities`, `costs`, `planner` (the to-do list), `emit` (C++, CUDA and Python), `coder` (the files) and `decide` (the
Verifier's word). All of it works on the graph as data, without torch.
"""

from __future__ import annotations

from collections.abc import Sequence

from agents.engineers import CodeAnswer, Context, DecideAnswer, PlanAnswer, UnusableAnswer, register
from agents.engineers.offline.coder import applied, write_candidate
from agents.engineers.offline.decide import decide
from agents.engineers.offline.graph import View
from agents.engineers.offline.opportunities import CHANNELS_LAST
from agents.engineers.offline.planner import make_todos, ways_of
from agents.engineers.offline.regions import Region
from agents.engineers.offline.replay import UNSEEN, replay_unseen
from agents.state import Candidate, Todo
from gpu_runner.contracts import Analysis


class Offline:
    """Planner, Coder and Verifier for the target `cpu` and for NVIDIA GPUs."""

    name = "offline"

    def plan(self, context: Context) -> PlanAnswer:
        if context.analysis.graph is None and context.state.options.target != "cpu":
            todos, note = replay_unseen(context.analysis)
        else:
            todos, note = make_todos(context.analysis, context.state.reference_diagnosis)
        tried = {key for plan in context.state.plans for todo in plan.todos for key in todo.data.get("regions", ())}
        fresh = tuple(t for t in todos if not set(t.data["regions"]) <= tried)
        if tried and not fresh:
            note = "Everything this engineer knows to do on this program has been tried."
        for todo in fresh:
            context.say(f"{todo.title}: predicted {todo.predicted}×\n" if todo.predicted else f"{todo.title}\n")
        return PlanAnswer(fresh, note)

    def code(self, context: Context, todo: Todo, parent: Candidate | None, failed: Candidate | None) -> CodeAnswer:
        options = context.state.options
        if context.analysis.graph is None and options.target == "cpu":
            raise UnusableAnswer("The program has no captured graph, so there is nothing to write kernels for.")
        if parent is not None and parent.author == "person":
            raise UnusableAnswer(
                f"{parent.id} was written by hand; this engineer generates whole programs and would lose that work. "
                "Branch from a generated candidate to go on."
            )
        kept = applied(context.files(parent)) if parent else []
        view, regions = _way(context.analysis, [*todo.data.get("regions", ()), *kept])
        known = {r.key: r for r in regions}
        wanted = [key for key in todo.data.get("regions", ()) if key in known]
        if not wanted and parent is not None and view is not None:
            raise UnusableAnswer(f"{parent.id} is laid out channels last, and has kernels of its own for this.")
        if not wanted:
            raise UnusableAnswer(f"The item “{todo.title}” names nothing that this engineer knows how to do.")
        if failed is not None:
            wanted = _smaller(wanted, applied(context.files(failed)))
        chosen = [known[key] for key in dict.fromkeys([*kept, *wanted]) if key in known]
        context.say(f"Writing {len(chosen)} kernel{'s' if len(chosen) != 1 else ''}\n")
        entry = context.analysis.entry or "Model"
        files = write_candidate(context.source, entry, view, chosen, options.mode.value, options.target)
        if options.require_own_kernels and not files.kernel_sources:
            raise UnusableAnswer("Own kernels are required in this run, and this item would need none.")
        title = todo.title if len(wanted) == len(todo.data.get("regions", ())) else f"{todo.title} (only {len(wanted)})"
        return CodeAnswer(files, title, note="; ".join(known[key].says for key in wanted)[:400])

    def decide(self, context: Context, candidate: Candidate) -> DecideAnswer:
        return DecideAnswer(decide(context, candidate))


def _way(analysis: Analysis, keys: list[str]) -> tuple[View | None, Sequence[Region]]:
    """The way to write the program that these regions are of: channels last where one of them is."""
    if analysis.graph is None:
        return None, [UNSEEN]
    ways = ways_of(analysis)
    way = ways[-1 if any(key.startswith(CHANNELS_LAST) for key in keys) else 0]
    return way.view, way.regions


def _smaller(wanted: list[str], tried: list[str]) -> list[str]:
    """A repair: half of what failed. One region that failed alone is given up."""
    if len(wanted) < 2:
        raise UnusableAnswer("This kernel failed, and there is no smaller step to take.")
    failed = [key for key in wanted if key in tried]
    return failed[len(failed) // 2 :] or wanted[:1]


register("offline", Offline)
