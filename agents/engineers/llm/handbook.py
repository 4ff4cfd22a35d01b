"""The handbook's pages that go with a question: found by what bounds the program, its operations and the item to do."""

from __future__ import annotations

import re
from collections.abc import Iterable

from agents.engineers import Context
from agents.engineers.llm.prompts import Part
from agents.handbook import Page, Situation, fitting
from agents.llm.tokens import tokens_in_text
from agents.loop.profiles import standing
from agents.model_choice import Role
from agents.state import Candidate, Todo

TITLE = "Handbook: "
MOST: dict[Role, tuple[int, int]] = {"planner": (4, 3500), "coder": (3, 6000)}  # pages, and tokens by the upper estimate
SHARE = 0.1  # of what the run may still spend, and of what the model takes in
# What of a source says which layers it has; the rest are names that could be anything.
_TELLING = re.compile(r"\b(?:nn|F|torch|functional)\.(\w+)|\bclass\s+(\w+)|\b(groups|mask|causal|bidirectional|kernel_size)\b")


def for_plan(context: Context) -> list[Part]:
    """Pages for the Planner, without their kernels."""
    return _parts(context, "planner", situation(context))


def for_code(context: Context, todo: Todo, base: Candidate | None) -> list[Part]:
    """Pages for the Coder of an item, on top of a candidate or of the reference alone."""
    return _parts(context, "coder", situation(context, todo, base))


def cited(titles: Iterable[str]) -> list[str]:
    """The names of the pages among the titles of a question's parts."""
    return [title.removeprefix(TITLE) for title in titles if title.startswith(TITLE)]


def situation(context: Context, todo: Todo | None = None, base: Candidate | None = None) -> Situation:
    """What is to be looked up: for a plan the whole program, for an item its own operations."""
    state, analysis = context.state, context.analysis
    found = (base.diagnosis if base else None) or standing(state)
    whole = sum(op.time_ns for op in analysis.ops)
    ops = {op.op: min(1.0, 3.0 * op.time_ns / whole) if whole else 0.5 for op in analysis.ops}
    text = [
        (" ".join("".join(match) for match in _TELLING.findall(context.source)), 0.3),
        (" ".join(sorted({spec.dtype for spec in analysis.inputs if spec})), 0.5),
        (" ".join(state.hints[-2:]), 0.7),
    ]
    if todo is not None:
        ops = dict.fromkeys(todo.ops, 1.0) or ops
        text += [(todo.title, 1.0), (" ".join([todo.why, *todo.constraints]), 0.4)]
    said = next((d for d in reversed(state.decisions) if base and d.candidate == base.id), None)
    if said is not None:
        text.append((" ".join([said.bottleneck, *said.suggestions]), 0.7))
    if found is not None:
        text.append((" ".join(found.suggestions), 0.7))
    bottlenecks = (found.klass,) if found and found.tells else ()
    return Situation(state.options.target, bottlenecks, ops, tuple(text))


def _parts(context: Context, role: Role, looked_up: Situation) -> list[Part]:
    """The best pages that fit into the room that they may take, none of them cut."""
    most, left = MOST[role]
    left = min(left, _spare(context, role))
    parts = []
    for page in fitting(looked_up, most):
        part = _part(page, kernel=role == "coder")
        if (size := tokens_in_text(part.shown)) <= left:
            parts.append(part)
            left -= size
    return parts


def _part(page: Page, kernel: bool) -> Part:
    return Part(f"{TITLE}{page.name}", f"{page.title}\n\n{page.text if kernel else page.prose}", weight=1, whole=True)


def _spare(context: Context, role: Role) -> int:
    """Tokens that pages may take of the run's budget and of the model's room; a page is help, never the reason to stop."""
    budget, used, choice = context.state.options.budget, context.state.usage, context.state.options.models.get(role)
    bounds = [float("inf")]
    if budget.tokens is not None:
        bounds.append(budget.tokens - used.tokens_in - used.tokens_out)
    if choice is not None and choice.context is not None:
        bounds.append(choice.context - choice.max_tokens)
    if budget.money is not None and choice is not None and choice.price_in:
        bounds.append((budget.money - used.money) / choice.price_in * 1e6)
    return int(min(1e9, max(0.0, SHARE * min(bounds))))
