"""An engineer that plays what it was given: for tests and demonstrations of everything around engineers.

    scripted = Scripted(plans=[...], codes=[...], decisions=[...])
    register("my-script", lambda: scripted)

Each list is played in order, one item per question; an exception in a list is raised. When a list is used up, plans are empty,
code is unusable, and decisions follow from the candidate: repair what failed, go on after what is verified.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, TypeVar

from agents.engineers import CodeAnswer, Context, DecideAnswer, PlanAnswer, UnusableAnswer
from agents.state import Candidate, Decision, Todo, Usage
from gpu_runner.contracts import CandidateFiles

T = TypeVar("T")


class Scripted:
    """Plays `plans` (todos each), `codes` (path to text each) and `decisions` in order; keeps what it was asked in `asked`."""

    name = "scripted"

    def __init__(
        self,
        plans: Iterable[tuple[Todo, ...] | Exception] = (),
        codes: Iterable[dict[str, str] | Exception] = (),
        decisions: Iterable[Decision | Exception] = (),
        usage: Usage | None = None,
    ) -> None:
        self._plans, self._codes, self._decisions = iter(plans), iter(codes), iter(decisions)
        self._usage = usage or Usage()
        self.asked: list[tuple[str, ...]] = []

    def plan(self, context: Context) -> PlanAnswer:
        self.asked.append(("plan",))
        context.say("Reading the script.\n")
        return PlanAnswer(todos=_play(self._plans, ()), note="From the script.", usage=self._usage)

    def code(self, context: Context, todo: Todo, parent: Candidate | None, failed: Candidate | None) -> CodeAnswer:
        self.asked.append(("code", todo.id, parent.id if parent else "", failed.id if failed else ""))
        files = _play(self._codes, None)
        if files is None:
            raise UnusableAnswer("The script has no further program.")
        try:
            checked = CandidateFiles(files=files)
        except ValueError as error:
            raise UnusableAnswer(str(error)) from error
        return CodeAnswer(files=checked, title=todo.title, usage=self._usage)

    def decide(self, context: Context, candidate: Candidate) -> DecideAnswer:
        self.asked.append(("decide", candidate.id))
        route: Literal["advance", "retry"] = "advance" if candidate.verified else "retry"
        own = Decision(candidate=candidate.id, route=route, sentence="The script says nothing; the obvious next step.")
        return DecideAnswer(decision=_play(self._decisions, own), usage=self._usage)


def _play(script: Iterator[T | Exception], otherwise: T) -> T:
    item = next(script, otherwise)
    if isinstance(item, Exception):
        raise item
    return item
