"""The questions of one step: each within the budget, each counted, each kept with its answer."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agents.engineers import Context, UnusableAnswer
from agents.engineers.llm.budget import Allowance, allowance
from agents.engineers.llm.handbook import cited
from agents.engineers.llm.prompts import Part, composed, prompts_of
from agents.llm import client
from agents.llm.cassette import Cassette, NoCassette, is_played, named
from agents.llm.client import Answer, Message, Price, Question, known_price
from agents.llm.doors import Door
from agents.llm.failures import AGAIN, ModelError
from agents.llm.keys import NoKey, without_secrets
from agents.llm.tokens import BYTES_A_TOKEN, tokens_of
from agents.model_choice import ModelChoice, Role
from agents.state import Usage

SHRINK = 0.6  # of its size is what a question that was too long is cut to


@dataclass
class Session:
    """`usage` is what the step has cost so far, whatever comes of it."""

    context: Context
    role: Role
    usage: Usage = field(default_factory=Usage)
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        choice = self.context.state.options.models.get(self.role)
        if choice is None:
            raise UnusableAnswer(f"No model is chosen for the {self.role}; name one with --model, or take another engineer.")
        self.choice: ModelChoice = choice
        self.door = self._door()
        self.prompts = prompts_of(self.context)
        self.played = is_played(choice.model)
        self.context.say(f"{self._opening()}\n")
        self.price = None if self.played else _price(choice)
        self.asked = 0
        self.began = self.clock()

    def ask(
        self, system: str, parts: Sequence[Part], after: Sequence[Message] = (), tools: Sequence[Mapping[str, Any]] = ()
    ) -> Answer:
        """The answer to a question of these parts, `after`: what was said since; `tools` that may be called.

        A question that is too long for the model is asked once more with less in it, one whose answer broke off is asked once
        more as it is. UnusableAnswer with a sentence when there is no answer, BudgetSpent when nothing was asked.
        """
        room = self._room(system)
        for last in (False, True):
            try:
                return self._asked(system, parts, after, room, tools)
            except ModelError as error:
                if last or not (error.kind == "overflow" or (error.kind in AGAIN and error.usage.tokens_in)):
                    raise UnusableAnswer(str(error)) from error
                if error.kind == "overflow":
                    room = int(SHRINK * len(composed(parts, room).text.encode(errors="replace")))
                    if not composed(parts, room).cut:
                        raise UnusableAnswer(f"{error} Nothing of it can be left out.") from error
                self.context.say(f"\n{error} It is asked once more.\n")
        raise AssertionError("the last question is answered or raises")

    def _door(self) -> Door:
        """How the model is reached now: opened for each question, since a key may be changed between two."""
        try:
            if is_played(self.choice.model):
                return Door(line=named(self.choice.model, self.context.source))
            return self.context.doors(self.choice)
        except (NoKey, NoCassette) as error:
            raise UnusableAnswer(str(error)) from error

    def _asked(
        self,
        system: str,
        parts: Sequence[Part],
        after: Sequence[Message],
        room: int | None,
        tools: Sequence[Mapping[str, Any]],
    ) -> Answer:
        asked = composed(parts, room)
        if asked.cut:
            self.context.say(f"The question was too long for the model; {asked.cut} of its parts were cut or left out.\n")
        messages = [{"role": "system", "content": system}, {"role": "user", "content": asked.text}, *after]
        wanted = Allowance(self.choice.max_tokens, self.choice.seconds)
        used = _sum(self.context.state.usage, self.usage)
        used = used.model_copy(update={"wall_s": used.wall_s + self.clock() - self.began})
        allowed = allowance(self.context.state.options.budget, used, tokens_of(messages, tools), wanted, self.price)
        self.door = self._door()
        question = Question(
            model=self.choice.model,
            messages=messages,
            max_tokens=allowed.max_tokens,
            seconds=allowed.seconds,
            api_base=self.choice.api_base,
            key_name=self.door.name,
            secret=self.door.secret,
            temperature=self.choice.temperature,
            guard=self.door.guard,
            tools=tools,
        )
        began = self.clock()
        try:
            answer = self._put(question)
        except ModelError as error:
            self.usage = _sum(self.usage, error.usage)
            self._keep(messages, cited(asked.titles), error.usage, began, error=str(error))
            raise
        self.usage = _sum(self.usage, answer.usage)
        self._keep(messages, cited(asked.titles), answer.usage, began, answer)
        return answer

    def _put(self, question: Question) -> Answer:
        given = (question, self.price, self.context.say, self.context.cancelled, self.clock)
        place = (self.role, self.context.state.step, self.asked)
        self.asked += 1
        return self.door.line.ask(*given, place) if self.door.line else client.ask(*given)

    def _opening(self) -> str:
        choice, line = self.choice, self.door.line
        if self.played and isinstance(line, Cassette):
            return f"A recording is played, no model is asked: the {self.role}'s part, of {line.recorded}. {line.about}"
        return f"The {self.role} asks {choice.model}{f' at {choice.api_base}' if choice.api_base else ''}."

    def _room(self, system: str) -> int | None:
        """Bytes for the parts, where it is known how much the model takes in."""
        if self.choice.context is None:
            return None
        tokens = self.choice.context - self.choice.max_tokens
        return max(0, int(tokens * BYTES_A_TOKEN) - len(system.encode()))

    def _keep(
        self,
        messages: Sequence[Message],
        pages: Sequence[str],
        usage: Usage,
        began: float,
        answer: Answer | None = None,
        error: str = "",
    ) -> None:
        """Question and answer become a blob of the run, without secrets; an event and the log say what they cost and which
        pages of the handbook went with the question."""
        counted = answer is not None and answer.counted
        asked = {
            "role": self.role,
            "model": self.choice.model,
            "tokens_in": usage.tokens_in,
            "tokens_out": usage.tokens_out,
            "money": usage.money,
            "price_known": self.price is not None or (self.played and not usage.unpriced),
            "counted": counted,
            "seconds": round(answer.seconds if answer else self.clock() - began, 3),
            "finish": answer.finish if answer else "",
            "tries": answer.tries if answer else 1,
            "error": error,
            "pages": list(pages),
        }
        whole = {**asked, "prompts": self.prompts.version, "messages": list(messages), "answer": answer.text if answer else ""}
        if answer and answer.calls:
            whole["calls"] = [call.said["function"] for call in answer.calls]
        text = json.dumps(whole, ensure_ascii=False, indent=1)
        text = without_secrets(self.door.secret.hidden_in(text) if self.door.secret else text)
        ref = self.context.blobs.put(text.encode(errors="replace"))
        self.context.asked({**asked, "error": error[:600], "blob": ref.model_dump()})
        if answer is None:
            return
        money = f"${usage.money:.4f}" if asked["price_known"] else "of unknown price (money is not enforced)"
        about, read = "" if counted else "about ", f"; handbook: {', '.join(pages)}" if pages else ""
        self.context.say(
            f"\n[{self.role}: {self.choice.model}, {about}{usage.tokens_in} tokens in, {about}{usage.tokens_out} out, {money}, "
            f"{answer.seconds:.1f} s; kept as {ref.sha256[:12]}{read}]\n"
        )


def _price(choice: ModelChoice) -> Price | None:
    if choice.price_in is not None and choice.price_out is not None:
        return Price(choice.price_in / 1e6, choice.price_out / 1e6)
    return known_price(choice.model)


def _sum(one: Usage, other: Usage) -> Usage:
    return one.model_copy(
        update={
            "tokens_in": one.tokens_in + other.tokens_in,
            "tokens_out": one.tokens_out + other.tokens_out,
            "unpriced": one.unpriced + other.unpriced,
            "money": one.money + other.money,
        }
    )
