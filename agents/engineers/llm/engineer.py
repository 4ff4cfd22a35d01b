"""Planner, Coder and Verifier that ask a model, each the one that the run chose for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from agents.engineers import CodeAnswer, Context, DecideAnswer, PlanAnswer, UnusableAnswer, register
from agents.engineers.llm import evidence, handbook
from agents.engineers.llm.files import read_files
from agents.engineers.llm.plans import read_plan, whole_program
from agents.engineers.llm.prompts import Part, prompts_of
from agents.engineers.llm.session import Session
from agents.engineers.llm.verdicts import read_verdict
from agents.engineers.offline.decide import decide as measured_decision
from agents.llm.client import Answer, Message
from agents.llm.failures import ModelError
from agents.model_choice import Role
from agents.state import Candidate, Decision, Todo

T = TypeVar("T")
Asked = tuple[str, list[Part]]
QUOTED = 12_000  # characters of an unusable answer that are shown to its writer


class Unreadable(UnusableAnswer):
    """The model answered, twice, and neither answer could be read; or it said nothing, or had no end."""


class LLM:
    """The three roles on models of the run's choice (`Options.models`)."""

    name = "llm"

    def plan(self, context: Context) -> PlanAnswer:
        """The Planner's list; when it cannot be read, twice, one item for the whole program."""
        found = context.state.reference_diagnosis
        rows = {row.key for row in found.rows} if found else set()
        with session_of(context, "planner") as session:
            try:
                todos, note = _answered(session, *asked_to_plan(context), lambda text: read_plan(text, rows))
            except Unreadable as error:
                context.say(f"{error} The plan is one item, then: the whole program.\n")
                todos, note = (whole_program("The Planner's list could not be read."),), ""
            return PlanAnswer(todos, note, session.usage)

    def code(self, context: Context, todo: Todo, parent: Candidate | None, failed: Candidate | None) -> CodeAnswer:
        """The program that the Coder makes of the attempt to repair, of the parent, or of the reference alone."""
        with session_of(context, "coder") as session:
            return written(session, context, todo, failed or parent)

    def decide(self, context: Context, candidate: Candidate) -> DecideAnswer:
        """The Verifier's diagnosis and route; when it cannot be read, twice, what the measurements say by themselves."""
        with session_of(context, "verifier") as session:
            try:
                decision = _answered(session, *asked_to_decide(context, candidate), lambda text: read_verdict(text, candidate))
            except Unreadable as error:
                context.say(f"{error} The measured rules decide.\n")
                decision = _measured(context, candidate)
            return DecideAnswer(decision, session.usage)


def asked_to_plan(context: Context) -> Asked:
    """What the Planner is told: the system's text and the parts of the question."""
    parts = [*evidence.program(context), *evidence.profile(context), *evidence.tried(context), *evidence.hints(context)]
    return _system("planner", context), [*parts, *_earlier_plan(context), *handbook.for_plan(context)]


def asked_to_code(context: Context, todo: Todo, base: Candidate | None) -> Asked:
    """What the Coder is told for an item, on top of a candidate or of the reference alone."""
    parts = [*evidence.program(context), evidence.item(todo), *evidence.hints(context)]
    if base is not None:
        parts += [*evidence.sources(context, base, f"Candidate {base.id}"), *evidence.outcome(context, base)]
    else:
        parts += evidence.profile(context)
    parts += [*evidence.tried(context, without=base.id if base else ""), *handbook.for_code(context, todo, base)]
    skill = "coder_from_scratch" if base is None else "coder_feedback"
    return f"{_system('coder', context)}\n{prompts_of(context).text(skill)}", parts


def asked_to_decide(context: Context, candidate: Candidate) -> Asked:
    """What the Verifier is told of a candidate."""
    parts = [*evidence.program(context), *evidence.sources(context, candidate, f"Candidate {candidate.id}")]
    parts += [*evidence.outcome(context, candidate), *evidence.tried(context, without=candidate.id), *_open_items(context)]
    return _system("verifier", context), parts


def written(session: Session, context: Context, todo: Todo, base: Candidate | None) -> CodeAnswer:
    """The program that the model makes of `base`, or of the reference alone, in one answer or a repaired one."""
    files = context.files(base) if base else {}
    checked, note = _answered(session, *asked_to_code(context, todo, base), lambda text: read_files(text, files))
    return CodeAnswer(checked, todo.title, note, session.usage)


@contextmanager
def session_of(context: Context, role: Role) -> Iterator[Session]:
    """A session whose cost is on whatever it ends in."""
    session = Session(context, role)
    try:
        yield session
    except UnusableAnswer as error:
        error.usage = session.usage
        raise


def _answered(session: Session, system: str, parts: Sequence[Part], reader: Callable[[str], T]) -> T:
    """What `reader` makes of the model's answer, or of a second one in which the model was shown what was wrong with the first.
    Unreadable with both sentences' last when neither can be used."""
    answer = _heard(session, system, parts)
    try:
        return reader(answer.text)
    except UnusableAnswer as error:
        wrong = _why(answer, error)
    session.context.say(f"\n{wrong} It is asked for once more.\n")
    after = [
        {"role": "assistant", "content": answer.text[-QUOTED:] or "(nothing)"},
        {"role": "user", "content": session.prompts.filled("repair", {"wrong": wrong})},
    ]
    answer = _heard(session, system, parts, after)
    try:
        return reader(answer.text)
    except UnusableAnswer as error:
        raise Unreadable(_why(answer, error)) from error


def _heard(session: Session, system: str, parts: Sequence[Part], after: Sequence[Message] = ()) -> Answer:
    """The answer. Unreadable where it was none, or had no end; UnusableAnswer where the model could not be asked."""
    try:
        return session.ask(system, parts, after)
    except UnusableAnswer as error:
        if isinstance(error.__cause__, ModelError) and error.__cause__.kind in ("empty", "huge"):
            raise Unreadable(str(error)) from error
        raise


def _why(answer: Answer, error: UnusableAnswer) -> str:
    if answer.finish == "tools":
        return "The model called a tool, and there is none here; the answer has to be text."
    cut = " The answer was cut at its longest." if answer.finish == "length" else ""
    return f"{error}{cut}"


def _system(role: Role, context: Context) -> str:
    target, prompts = context.state.options.target, prompts_of(context)
    kind = "target_cpu" if target == "cpu" else "target_cuda"
    return prompts.filled(role, {"target": prompts.text(kind) if role == "coder" else target})


def _earlier_plan(context: Context) -> list[Part]:
    plan = context.state.plan
    if plan is None:
        return []
    lines = [f"{todo.status}: {todo.title}. {todo.note[:200]}" for todo in plan.todos[-16:]]
    return [Part("The plan so far, to be replaced", "\n".join(lines), data=True, weight=4)]


def _open_items(context: Context) -> list[Part]:
    todos = context.state.plan.todos if context.state.plan else ()
    lines = [f"{todo.id}: {todo.title}" for todo in todos if todo.status in ("open", "doing")]
    return [Part("Items of the plan that are open", "\n".join(lines), data=True, weight=4)]


def _measured(context: Context, candidate: Candidate) -> Decision:
    """The rules' own diagnosis; what failed is tried again, within the reducer's bounds."""
    decision = measured_decision(context, candidate)
    if candidate.verified:
        return decision
    route = "retry" if candidate.author == "engineer" else "advance"
    return decision.model_copy(update={"route": route, "sentence": f"{candidate.id} failed: {candidate.note}"})


register("llm", LLM)
