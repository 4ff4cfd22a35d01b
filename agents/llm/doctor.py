"""Whether a model can do what runs ask of it: where it is, who may ask, what it answers, and what it cannot do.

Each finding is one sentence: what, why, what to do. The command `doctor` and a site's "Test this model" show the same.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from agents.llm import client
from agents.llm.client import Answer, Price, Question
from agents.llm.doors import Door
from agents.llm.failures import ModelError
from agents.llm.probe import Seen, probe
from agents.llm.tokens import tokens_in_text
from agents.model_choice import ModelChoice
from agents.state import Usage

Part = Literal["server", "model", "answer", "streaming", "speed", "context", "tools", "structure", "clock"]
Health = Literal["ok", "warn", "bad"]

WORDS = "This is a test of the connection. Count from one to twenty in words, with spaces between them, and say nothing else."
MOST_TOKENS, MOST_S = 512, 60.0
TELLING = 16  # tokens; of fewer no speed is said, and nothing of streaming
SKEW_S = 120.0
LISTED = 6  # models that a sentence names
LEAST_CONTEXT = 16_384  # tokens: the prompts and a handbook page take about half, a program and its answer the rest
_TOOL = {
    "type": "function",
    "function": {
        "name": "report",
        "description": "Reports a word to whoever tests this connection.",
        "parameters": {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
    },
}
_SCHEMA = {
    "type": "object",
    "properties": {"ready": {"type": "boolean"}},
    "required": ["ready"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class Finding:
    """`health`: "warn" where runs go on without it, "bad" where they cannot."""

    part: Part
    health: Health
    sentence: str


@dataclass(frozen=True)
class Examined:
    """Everything found, in order, and what the questions cost. `answered`: what the model said to a plain question."""

    findings: tuple[Finding, ...]
    usage: Usage
    answered: Answer | None = None

    @property
    def ok(self) -> bool:
        return not any(finding.health == "bad" for finding in self.findings)


def examine(
    choice: ModelChoice,
    door: Door,
    price: Price | None = None,
    *,
    long_text: str = "",
    seconds: float = MOST_S,
    tell: Callable[[Finding], None] = lambda finding: None,
    cancelled: Callable[[], bool] = lambda: False,
    clock: Callable[[], float] = time.monotonic,
) -> Examined:
    """Looks at a model from the outside in, and stops where nothing further can be told. `long_text`: about as long as what a
    run asks; `seconds`: of all questions together."""
    return _Examination(choice, door, price, long_text, clock() + seconds, tell, cancelled, clock).run()


class _Examination:
    def __init__(
        self,
        choice: ModelChoice,
        door: Door,
        price: Price | None,
        long_text: str,
        until: float,
        tell: Callable[[Finding], None],
        cancelled: Callable[[], bool],
        clock: Callable[[], float],
    ) -> None:
        self.choice, self.door, self.price, self.long_text = choice, door, price, long_text
        self.until, self.tell, self.cancelled, self.clock = until, tell, cancelled, clock
        self.seen = Seen()
        self.found: list[Finding] = []
        self.usage = Usage()

    def run(self) -> Examined:
        answer = None
        client.load()  # its seconds are no fault of the server's
        if self._server() and (answer := self._answer()) is not None:
            for part in (self._streaming, self._speed, self._context, self._tools, self._structure):
                for finding in part(answer):
                    self._add(finding)
        return Examined(tuple(self.found), self.usage, answer)

    def _add(self, finding: Finding) -> None:
        self.found.append(finding)
        self.tell(finding)

    def _server(self) -> bool:
        """Whether there is something to ask. A hosted service has an address of its own, and is asked right away."""
        if not self.choice.api_base:
            return True
        try:
            self.seen = probe(self.choice.api_base, self.door)
        except ModelError as error:
            self._add(Finding("server", "bad", str(error)))
            return False
        models, name = self.seen.models, self._name
        if models is None:
            said = "It lists no models, which not every server does."
        else:
            said = f"It offers {_listed(models)}." if models else "Its list of models is empty: none may be loaded yet."
        self._add(Finding("server", "ok", f"A server answers at {self.choice.api_base}. {said}"))
        if (ahead := self.seen.ahead_s) is not None and abs(ahead) > SKEW_S:
            which = "behind" if ahead > 0 else "ahead of"
            self._add(Finding("clock", "warn", f"This machine's clock is {_span(abs(ahead))} {which} the server's: "
                              "certificates and signed keys fail by that. Set the one that is off."))  # fmt: skip
        if models and name not in models:
            self._add(Finding("model", "warn", f"{name!r} is not in the server's list. It is asked all the same, for some "
                              f"servers answer to any name; otherwise take one of {_listed(models)}."))  # fmt: skip
        return True

    @property
    def _name(self) -> str:
        return self.choice.model.partition("/")[2] or self.choice.model

    def _ask(self, text: str, **more: Any) -> Answer:
        question = Question(
            model=self.choice.model,
            messages=[{"role": "user", "content": text}],
            max_tokens=min(MOST_TOKENS, self.choice.max_tokens),
            seconds=self.until - self.clock(),
            api_base=self.choice.api_base,
            key_name=self.door.name,
            secret=self.door.secret,
            temperature=self.choice.temperature,
            guard=self.door.guard,
        )
        try:
            answer = client.ask(replace(question, **more), self.price, cancelled=self.cancelled, clock=self.clock)
        except ModelError as error:
            self._charge(error.usage)
            raise
        self._charge(answer.usage)
        return answer

    def _charge(self, usage: Usage) -> None:
        names = ("tokens_in", "tokens_out", "unpriced", "money")
        self.usage = self.usage.model_copy(update={name: getattr(self.usage, name) + getattr(usage, name) for name in names})

    def _answer(self) -> Answer | None:
        try:
            answer = self._ask(WORDS)
        except ModelError as error:
            offered = ""
            if (
                error.kind in ("model", "address", "request", "server")
                and self.seen.models
                and self._name not in self.seen.models
            ):
                offered = f" The server offers {_listed(self.seen.models)}."
            if error.kind == "timeout":
                offered = " It may be loading the model, or be too slow for runs: a smaller model, or a faster machine."
            self._add(Finding("answer", "bad", f"{error}{offered}"))
            return None
        said = " ".join(answer.text.split())[:60] or "nothing, but called a tool"
        count = "" if answer.counted else " The server counts no tokens, so estimates are charged, which err upward."
        self._add(Finding("answer", "ok", f"It answered “{said}” after {answer.seconds:.1f} s.{count}"))
        return answer

    def _streaming(self, answer: Answer) -> Iterator[Finding]:
        if answer.pieces > 1:
            yield Finding(
                "streaming", "ok", f"The answer came in {answer.pieces} pieces, the first after {answer.first_s:.1f} s."
            )
        elif tokens_in_text(answer.text) >= TELLING:
            yield Finding("streaming", "warn", "The answer came in one piece: the server, or a proxy before it, does not "
                          "stream. Runs work, but their page shows an answer only when it is whole, and one that takes more "
                          f"than {client.STALL_S:.0f} s is given up as silence.")  # fmt: skip

    def _speed(self, answer: Answer) -> Iterator[Finding]:
        took = answer.seconds - answer.first_s if answer.pieces > 1 else answer.seconds
        if answer.usage.tokens_out < TELLING or took <= 0:
            return
        rate = answer.usage.tokens_out / took
        most = self.choice.max_tokens / rate
        if most > self.choice.seconds:
            fits = int(rate * self.choice.seconds)
            yield Finding("speed", "warn", f"It writes {rate:.0f} tokens a second: an answer of {self.choice.max_tokens} "
                          f"tokens, the longest allowed, takes {_span(most)}, and is given up after "
                          f"{_span(self.choice.seconds)}. Allow at most {fits} tokens, or take a faster server.")  # fmt: skip
        else:
            yield Finding("speed", "ok", f"It writes {rate:.0f} tokens a second.")

    def _context(self, answer: Answer) -> Iterator[Finding]:
        window = (self.seen.models or {}).get(self._name) or self.choice.context
        if window is not None and window < LEAST_CONTEXT:
            yield Finding("context", "warn", f"It takes in {window} tokens, question and answer together; questions of a run "
                          f"want about {LEAST_CONTEXT}. They are cut until they fit, which costs quality: start the server "
                          "with a longer context, where the model allows one.")  # fmt: skip
        if not self.long_text:
            return
        try:
            long = self._ask(f"{self.long_text}\n\nAnswer with the one word: ready", max_tokens=16)
        except ModelError as error:
            if error.kind == "overflow":
                size = tokens_in_text(self.long_text) // 2
                yield Finding("context", "bad", f"A question as long as those of a run (some {size} tokens) is too long for "
                              f"it: {error} Start the server with a longer context, or take another model.")  # fmt: skip
            elif error.kind != "empty":
                yield Finding("context", "warn", f"A question as long as those of a run was not answered: {error}")
            return
        least = len(self.long_text) // 12  # no tokenizer takes twelve characters of a program into a token
        if long.counted and long.usage.tokens_in < least:
            yield Finding("context", "bad", f"Of a question of {len(self.long_text)} characters it read {long.usage.tokens_in} "
                          "tokens: the server cuts long questions without a word. Start it with a longer context (for Ollama: "
                          f"num_ctx of {LEAST_CONTEXT} or more).")  # fmt: skip
        elif window is None or window >= LEAST_CONTEXT:
            known = f" Its context is {window} tokens." if window else ""
            yield Finding("context", "ok", f"It takes in a question as long as those of a run.{known}")

    def _tools(self, answer: Answer) -> Iterator[Finding]:
        why = ""
        try:
            called = self._ask("Call the tool report with the word ready.", tools=[_TOOL])
            for call in called.calls:
                if call.name == "report" and _is_object(call.arguments):
                    yield Finding("tools", "ok", "It calls tools, so the agentic engineer can work with it.")
                    return
                why = f"It called {call.name[:40]!r} with arguments that are no JSON object. "
            why = why or "It answered with words instead. "
        except ModelError as error:
            why = f"{error} "
        yield Finding("tools", "warn", f"It does not call tools when asked to. {why}Only the agentic engineer needs them; with "
                      "this model take the engineer llm, or a model and server that offer tools.")  # fmt: skip

    def _structure(self, answer: Answer) -> Iterator[Finding]:
        try:
            text = self._ask("Are you ready? Answer as JSON.", schema=_SCHEMA).text
            given = json.loads(text) if _is_object(text) else {}
            if isinstance(given.get("ready"), bool):
                yield Finding("structure", "ok", "It keeps to a JSON schema.")
                return
            why = "It answered in another form. "
        except ModelError as error:
            why = f"{error} "
        yield Finding("structure", "warn", f"It does not keep to a JSON schema. {why}Nothing depends on that: plans and "
                      "verdicts are read out of any text, and asked for once more where they cannot be.")  # fmt: skip


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _listed(models: Mapping[str, int | None]) -> str:
    names = sorted(models)
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(name[:80] for name in names[:LISTED]) + more


def _span(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.0f} h"
