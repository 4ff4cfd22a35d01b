"""The conversation of a Coder with tools: turn after turn, each within the run's budget, until it hands in or is at an end."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from agents.engineers import BudgetSpent, CodeAnswer, Context, UnusableAnswer, register
from agents.engineers.agentic.toolbox import FINISH, TOLD, Done, Toolbox, calls_in, readable
from agents.engineers.agentic.workbench import Refused, Workbench
from agents.engineers.llm.engineer import LLM, asked_to_code, session_of, written
from agents.engineers.llm.files import read_files
from agents.engineers.llm.prompts import Part, composed, prompts_of
from agents.engineers.llm.session import Session
from agents.llm.client import Answer
from agents.llm.failures import ModelError
from agents.llm.keys import without_secrets
from agents.llm.tokens import tokens_of
from agents.state import Candidate, Todo
from gpu_runner.hands import Cancelled

MOST_TURNS = 32
MOST_USELESS = 4  # turns in a row that did and showed nothing
MOST_TOKENS = 400_000  # of one attempt
SHARE = 0.5  # of the run's tokens that are left is what one attempt may take
KEPT = 600  # characters of an old result, where the conversation has to be shorter
_LEFT_OUT = "\n… (left out: the conversation has become too long. Ask again for what you need.)"


class Agentic(LLM):
    """Planner and Verifier as the engineer `llm`; a Coder with tools."""

    name = "agentic"

    def code(self, context: Context, todo: Todo, parent: Candidate | None, failed: Candidate | None) -> CodeAnswer:
        """The program that the model hands in, or the best of what it verified where it never did."""
        base = failed or parent
        with session_of(context, "coder") as session:
            work = _Work(context, session, Workbench(context, context.files(base) if base else {}))
            try:
                answer = work.run(todo, base)
            except UnusableAnswer as error:
                if work.turns or not _knows_no_tools(error):
                    raise
                context.say(f"\n{error} It seems to take no tools, so it is asked for the files.\n")
                return written(session, context, todo, base)
            finally:
                session.usage = session.usage.model_copy(update={"device_s": work.bench.device_s})
            return CodeAnswer(answer.files, answer.title, answer.note, session.usage)


@dataclass
class _Work:
    """One attempt. `after`: what was said since the question."""

    context: Context
    session: Session
    bench: Workbench
    turns: int = 0
    useless: int = 0
    after: list[dict[str, Any]] = field(default_factory=list)

    def run(self, todo: Todo, base: Candidate | None) -> CodeAnswer:
        """The answer that the work comes to. UnusableAnswer with a sentence where it comes to none."""
        system, parts = asked_to_code(self.context, todo, base)
        system = f"{system}\n{prompts_of(self.context).text('agentic')}"
        box, most = Toolbox(self.bench), self._most_tokens()
        while True:
            why = self._over(most)
            if why:
                return self._at_its_end(todo, why)
            try:
                answer = self._asked(system, parts)
            except UnusableAnswer as error:
                if not self.turns:
                    raise
                return self._at_its_end(todo, str(error), error)
            self.turns += 1
            calls = answer.calls or calls_in(answer.text)
            if calls:
                done = [self._done(box, call) for call in calls]
                self._remember(answer, done)
                handed = next((one for one in done if one.handed_in), None)
                if handed is not None:
                    return CodeAnswer(self.bench.handed_in(), todo.title, handed.text[:300], self.session.usage)
                self.useless = 0 if any(one.useful for one in done) else self.useless + 1
                continue
            try:
                files, note = read_files(answer.text, self.bench.files)
            except UnusableAnswer as error:
                self.useless += 1
                self._nudge(answer, str(error))
            else:
                return CodeAnswer(files, todo.title, note, self.session.usage)

    def _most_tokens(self) -> int:
        budget, used = self.context.state.options.budget, self.context.state.usage
        if budget.tokens is None:
            return MOST_TOKENS
        return min(MOST_TOKENS, int(SHARE * (budget.tokens - used.tokens_in - used.tokens_out)))

    def _over(self, most: int) -> str:
        """Why the attempt is at its end; empty where it is not."""
        spent = self.session.usage.tokens_in + self.session.usage.tokens_out
        if self.turns >= MOST_TURNS:
            return f"The Coder took its {MOST_TURNS} turns and did not hand in."
        if self.useless >= MOST_USELESS:
            return f"The Coder did nothing of use in {MOST_USELESS} turns in a row."
        if self.turns and spent >= most:
            return f"The Coder took {spent} tokens, the most of one attempt, and did not hand in."
        return ""

    def _at_its_end(self, todo: Todo, why: str, error: UnusableAnswer | None = None) -> CodeAnswer:
        """What the workbench holds by now, where that is a candidate."""
        try:
            files = self.bench.best()
        except Refused as refused:
            if isinstance(error, BudgetSpent):
                raise error from refused
            raise UnusableAnswer(f"{why} {refused}") from refused
        which = "The best that it verified is taken." if self.bench.right else "Its files are taken as they are."
        self.context.say(f"\n{why} {which}\n")
        return CodeAnswer(files, todo.title, f"{why} {which}"[:300], self.session.usage)

    def _asked(self, system: str, parts: list[Part]) -> Answer:
        """An answer; once more with a shorter conversation where it had become too long for the model."""
        choice = self.session.choice
        if choice.context is not None:
            asked = [{"content": system}, {"content": composed(parts).text}]
            self._shorten(choice.context - choice.max_tokens - tokens_of(asked, TOLD))
        try:
            return self.session.ask(system, parts, self.after, TOLD)
        except UnusableAnswer as error:
            cause = error.__cause__
            if not (isinstance(cause, ModelError) and cause.kind == "overflow") or not self._shorten(
                tokens_of(self.after) // 2
            ):
                raise
            self.context.say(f"\n{error} It is asked once more, with less of what was said.\n")
            return self.session.ask(system, parts, self.after, TOLD)

    def _shorten(self, most: int) -> bool:
        """Cuts old results until the conversation has at most so many tokens, and says whether it cut any."""
        cut = False
        for message in self.after[:-2]:
            if tokens_of(self.after) <= most:
                break
            if message["role"] in ("tool", "user") and len(message["content"]) > KEPT + len(_LEFT_OUT):
                message["content"] = message["content"][:KEPT] + _LEFT_OUT
                cut = True
        return cut

    def _done(self, box: Toolbox, call: Any) -> Done:
        if self.context.cancelled():
            raise Cancelled
        began = time.monotonic()
        done = box.do(call)
        seconds = time.monotonic() - began
        first = done.text.strip().partition("\n")[0][:200]
        self.context.say(f"\n[{call.name[:60]}: {first}]\n")
        self.context.called({
            "role": "coder", "turn": self.turns, "tool": call.name[:60], "arguments": without_secrets(call.arguments[:300]),
            "useful": done.useful, "sentence": without_secrets(first), "seconds": round(seconds, 3),
        })  # fmt: skip
        return done

    def _remember(self, answer: Answer, done: list[Done]) -> None:
        if answer.calls:
            said = {"role": "assistant", "content": answer.text or None, "tool_calls": readable(answer.calls)}
            self.after.append({key: value for key, value in said.items() if value is not None})
            self.after += [{"role": "tool", "tool_call_id": one.call.id, "content": one.text} for one in done]
            return
        results = "\n\n".join(f"{one.call.name}:\n{one.text}" for one in done)
        self.after += [{"role": "assistant", "content": answer.text}, {"role": "user", "content": results}]

    def _nudge(self, answer: Answer, wrong: str) -> None:
        words = f"That called no tool, and it is no candidate either: {wrong} Go on with a tool, or call {FINISH}."
        self.after += [
            {"role": "assistant", "content": answer.text[-12_000:] or "(nothing)"},
            {"role": "user", "content": words},
        ]


def _knows_no_tools(error: UnusableAnswer) -> bool:
    """Whether a server refused a question as some do that offer no tools."""
    cause = error.__cause__
    return isinstance(cause, ModelError) and cause.kind in ("request", "server") and "tool" in str(cause).lower()


register("agentic", Agentic)
