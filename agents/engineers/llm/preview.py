"""What a model would be told with a prompt as it is being written, on the data of a run that there was. Nothing is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agents.blobs import MemoryBlobs
from agents.engineers import Context
from agents.engineers.llm.engineer import Asked, asked_to_code, asked_to_decide, asked_to_plan
from agents.engineers.llm.plans import whole_program
from agents.engineers.llm.prompts import Prompts, composed, prompts_of
from agents.llm.tokens import tokens_of
from agents.state import BlobStore, Candidate, State
from agents.steps import context_of
from gpu_runner.contracts import BlobRef

_UNREADABLE = "The answer holds no JSON object."  # an example of what a repair is told


class NoPreview(Exception):
    """The run has nothing that this prompt is about. The message is a sentence."""


@dataclass(frozen=True)
class Told:
    """A question as a model would get it. `tokens`: an upper estimate of it."""

    system: str
    user: str
    tokens: int


def preview(name: str, own: Mapping[str, str], state: State, blobs: BlobStore) -> Told:
    """The question in which the prompt `name` is used, with the prompts `own` in the place of ours. NoPreview says why not."""
    kept = MemoryBlobs()
    prompts = {key: kept.put(text.encode(errors="replace")) for key, text in own.items()}
    state = state.model_copy(update={"options": state.options.model_copy(update={"prompts": prompts})})
    try:
        context = context_of(state, _Both(kept, blobs))
        if name == "repair":
            return _told("", Prompts(own).filled("repair", {"wrong": _UNREADABLE}))
        system, parts = _QUESTIONS[name](context)
    except KeyError:
        raise NoPreview("This run was not analysed, or its data are not stored here any more. Choose another.") from None
    return _told(system, composed(parts).text)


def _told(system: str, user: str) -> Told:
    return Told(system, user, tokens_of([{"content": system}, {"content": user}]))


class _Both:
    """A run's blobs, which nothing is added to, and the texts of a preview."""

    def __init__(self, kept: MemoryBlobs, blobs: BlobStore) -> None:
        self._kept, self._blobs = kept, blobs

    def put(self, data: bytes) -> BlobRef:
        return self._kept.put(data)

    def get(self, ref: BlobRef) -> bytes:
        try:
            return self._kept.get(ref)
        except KeyError:
            return self._blobs.get(ref)


def _first(context: Context) -> Asked:
    plan = context.state.plan
    todo = plan.todos[0] if plan and plan.todos else whole_program("There is no plan in this run.")
    return asked_to_code(context, todo, None)


def _tools(context: Context) -> Asked:
    system, parts = _first(context)
    return f"{system}\n{prompts_of(context).text('agentic')}", parts


def _next(context: Context) -> Asked:
    candidate = _last(context)
    plan = context.state.plan
    todo = next((t for t in plan.todos if t.id == candidate.todo), None) if plan else None
    return asked_to_code(context, todo or whole_program("There is no plan in this run."), candidate)


def _judged(context: Context) -> Asked:
    return asked_to_decide(context, _last(context))


def _last(context: Context) -> Candidate:
    done = [candidate for candidate in context.state.candidates if candidate.status == "done"]
    if not done:
        raise NoPreview("This run has no candidate that was measured. Choose one that has.")
    return done[-1]


def _for(kind: str) -> Callable[[Context], Asked]:
    def first(context: Context) -> Asked:
        if (context.state.options.target == "cpu") != (kind == "cpu"):
            other = "the CPU" if kind == "cpu" else "a GPU"
            raise NoPreview(f"This run is for {context.state.options.target}. Choose one for {other}.")
        return _first(context)

    return first


_QUESTIONS: Mapping[str, Callable[[Context], Asked]] = {
    "planner": asked_to_plan,
    "coder": _first,
    "coder_from_scratch": _first,
    "coder_feedback": _next,
    "agentic": _tools,
    "verifier": _judged,
    "target_cpu": _for("cpu"),
    "target_cuda": _for("cuda"),
}
