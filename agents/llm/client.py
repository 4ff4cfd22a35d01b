"""One question to one model, through LiteLLM: streamed, bounded in time and size, tried again where that may help, counted.

LiteLLM takes seconds to import and is imported at the first question. What comes out of it is an `Answer` or a `ModelError`
with a sentence, or `gpu_runner.hands.Cancelled`; nothing else.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal

from agents.llm.failures import AGAIN, Asked, ModelError, explained
from agents.llm.guard import Guard
from agents.llm.keys import Secret, Veil, quieten_litellm
from agents.llm.tokens import tokens_in_text, tokens_of
from agents.llm.tools import Gathered, ToolCall
from agents.state import Usage
from gpu_runner.hands import Cancelled

Message = dict[str, Any]

MOST_TRIES = 4
FIRST_WAIT_S, MOST_WAIT_S = 1.0, 60.0  # between tries; a server that asks for more gets no further try
STALL_S = 120.0  # of silence before the first piece and between two
LOOK_S = 0.1  # how often it is asked whether the run was cancelled
MOST_CHARACTERS = 400_000  # of one answer
NOWHERE = "http://guarded.invalid/v1"
_NOTHING = object()  # no piece yet


@dataclass(frozen=True)
class Price:
    """Dollars a token."""

    tokens_in: float
    tokens_out: float

    def of(self, tokens_in: int, tokens_out: int) -> float:
        return tokens_in * self.tokens_in + tokens_out * self.tokens_out


@dataclass(frozen=True)
class Question:
    """`model` as LiteLLM names it, with its provider; `max_tokens` of the answer; `seconds`: of all tries and waits together;
    `stall_s`: of silence. `secret` None: a server that wants no key. `guard`: judges `api_base`; None: whatever it is. `tools`
    that the model may call, and the JSON `schema` of its answer, as OpenAI's protocol writes them."""

    model: str
    messages: Sequence[Message]
    max_tokens: int
    seconds: float
    api_base: str = ""
    key_name: str = ""
    secret: Secret | None = field(default=None, repr=False)
    temperature: float | None = None
    stall_s: float = STALL_S
    guard: Guard | None = None
    tools: Sequence[Mapping[str, Any]] = ()
    schema: Mapping[str, Any] | None = None

    @property
    def asked(self) -> Asked:
        return Asked(self.model, self.api_base, self.key_name, self.secret)


@dataclass(frozen=True)
class Answer:
    """`finish`: "length" where the answer was cut at `max_tokens`, "tools" where the model called a tool instead of answering;
    `calls`: those of the tools that it was offered. `counted`: the server counted the tokens; otherwise they are our estimate,
    which errs upward. `pieces`: in how many it came; `first_s`: seconds to the first of them."""

    text: str
    finish: Literal["stop", "length", "tools"]
    usage: Usage
    counted: bool
    seconds: float
    tries: int
    calls: tuple[ToolCall, ...] = ()
    pieces: int = 1
    first_s: float = 0.0


def ask(
    question: Question,
    price: Price | None = None,
    say: Callable[[str], None] = lambda text: None,
    cancelled: Callable[[], bool] = lambda: False,
    clock: Callable[[], float] = time.monotonic,
) -> Answer:
    """The model's answer; its pieces go to `say` as they come. ModelError with a sentence; Cancelled if `cancelled()` says so.

    `price` None: unknown, money counts as nothing. Rate limits and failing servers are tried again, `MOST_TRIES` in all, with
    waits that double or are what the server asks for. A try that may have cost something is the last one: whether another is
    within the budget is for the caller to say.
    """
    began = clock()
    for tries in range(1, MOST_TRIES + 1):
        call = _Call(question, price, say, cancelled, began + question.seconds, clock)
        try:
            answer = call.run()
        except ModelError as error:
            wait = error.wait_s if error.wait_s is not None else FIRST_WAIT_S * 2 ** (tries - 1)
            left = began + question.seconds - clock()
            if error.kind not in AGAIN or error.usage.tokens_in or tries == MOST_TRIES or wait > min(MOST_WAIT_S, left):
                raise
            say(f"\n{error} Trying again in {wait:.0f} s.\n")
            _sleep(wait, cancelled, clock)
        else:
            return replace(answer, seconds=clock() - began, tries=tries)
    raise AssertionError("the last try returns or raises")


def known_price(model: str) -> Price | None:
    """The price in LiteLLM's own list; None where it has none."""
    try:
        info = _litellm().get_model_info(model)
        price = Price(float(info["input_cost_per_token"]), float(info["output_cost_per_token"]))
    except Exception:  # an unknown model is told by an exception of no class of its own
        return None
    return price if price.tokens_in >= 0 and price.tokens_out >= 0 else None


def load() -> None:
    """Imports LiteLLM, which takes seconds, where somebody is about to look at a clock."""
    _litellm()


@lru_cache
def _litellm() -> Any:
    quieten_litellm()
    import litellm as module

    litellm: Any = module
    litellm.suppress_debug_info = True  # it prints advice to standard output, where our JSON goes
    litellm.telemetry = False
    _disarm_finalizer()
    # Of a server's odd usage; what can be used of it is looked at here.
    warnings.filterwarnings("ignore", message="Pydantic serializer warnings", category=UserWarning)
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # its lines may quote a request, and with it a key
    return litellm


def _disarm_finalizer() -> None:
    """A stream's finalizer sets context variables. It only undoes what asynchronous calls do, and we make none; but where the
    cycle collector runs it while another variable is being set, CPython ends with a segmentation fault (python/cpython#148891).
    """
    from litellm.litellm_core_utils.streaming_handler import CustomStreamWrapper

    del CustomStreamWrapper.__del__


class _Call:
    """One try. LiteLLM runs in a thread of its own, since a silent server would otherwise hold back a cancel."""

    def __init__(
        self,
        question: Question,
        price: Price | None,
        say: Callable[[str], None],
        cancelled: Callable[[], bool],
        until: float,
        clock: Callable[[], float],
    ) -> None:
        self.question, self.price, self.say, self.cancelled, self.until = question, price, say, cancelled, until
        self.clock = clock
        self.pieces: queue.Queue[Any] = queue.Queue()
        self.left = threading.Event()  # whoever waited has gone: the thread ends at its next piece
        self.text: list[str] = []
        self.veil = Veil(question.secret)  # a server may repeat what it was given
        self.written = self.thought = 0  # characters
        self.calls, self.heard, self.began, self.first_s = Gathered(), 0, clock(), 0.0
        self.finish: str | None = None
        self.counts: tuple[int, int] | None = None

    def run(self) -> Answer:
        if self.until <= self.clock():
            raise ModelError("timeout", "There was no time left to ask.")
        try:
            self._read(self._stream)
            self._hear(self.veil.rest())
            if not "".join(self.text).strip() and self.finish in (None, "stop") and not self.thought and not self.calls:
                # A server that does not stream answers with one document, in which a reader of a stream finds nothing.
                self._read(self._whole)
        finally:
            self.left.set()
        return self._answer()

    def _read(self, source: Callable[[], Iterator[Any]]) -> None:
        threading.Thread(target=self._pump, args=(source,), daemon=True, name="model-call").start()
        while True:
            try:
                piece = self.pieces.get(timeout=LOOK_S)
            except queue.Empty:
                piece = _NOTHING
            if self.cancelled():
                raise Cancelled
            if self.clock() > self.until:
                raise ModelError("timeout", f"{self.question.asked.name} did not end in its time.", self._estimate())
            if piece is None:
                return
            if isinstance(piece, BaseException):
                if self.finish is not None:
                    return  # the answer was complete; only what follows it could not be read
                error = explained(piece, self.question.asked)
                error.usage = self._estimate() if self.text or error.kind == "timeout" else Usage()
                raise error
            if piece is not _NOTHING:
                self._take(piece)
            if self.written + self.thought > MOST_CHARACTERS:
                sentence = f"The answer was broken off after {MOST_CHARACTERS} characters; no program is that long."
                raise ModelError("huge", sentence, self._estimate())

    def _pump(self, source: Callable[[], Iterator[Any]]) -> None:
        try:
            for piece in source():
                self.pieces.put(piece)
                if self.left.is_set():
                    return
        except BaseException as error:  # handed over: this thread has nobody to raise it to
            self.pieces.put(error)
        finally:
            self.pieces.put(None)

    def _take(self, chunk: Any) -> None:
        usage = getattr(chunk, "usage", None)
        if usage is not None:
            self.counts = _counts(usage)
        for choice in (getattr(chunk, "choices", None) or [])[:1]:
            self.finish = getattr(choice, "finish_reason", None) or self.finish
            said = getattr(choice, "delta", None) or getattr(choice, "message", None)
            text, thought = getattr(said, "content", None), getattr(said, "reasoning_content", None)
            if isinstance(thought, str):
                self.thought += len(thought)
            self.written += self.calls.add(getattr(said, "tool_calls", None))
            if text or thought or self.calls:
                self.heard += 1
                self.first_s = self.first_s or self.clock() - self.began
            if isinstance(text, str) and text:
                self._hear(self.veil.over(text))
                self.written += len(text)

    def _hear(self, text: str) -> None:
        if text:
            self.text.append(text)
            self.say(text)

    def _stream(self) -> Iterator[Any]:
        with self._way() as way:
            yield from _litellm().completion(**(self._given() | way), stream=True, stream_options={"include_usage": True})

    def _whole(self) -> Iterator[Any]:
        with self._way() as way:
            yield _litellm().completion(**(self._given() | way))

    @contextmanager
    def _way(self) -> Iterator[dict[str, Any]]:
        """The client that a guarded server is asked with; LiteLLM's own where there is nothing to guard."""
        question = self.question
        if question.guard is None or not question.api_base:
            yield {}
            return
        _litellm()  # before its own import of the same packages
        from openai import OpenAI

        given = self._given()
        with question.guard.client(question.api_base, given["timeout"]) as http:
            client = OpenAI(api_key=given["api_key"], base_url=question.api_base, http_client=http, max_retries=0)
            # Only this client knows key and address: a way through LiteLLM that did not use it would lead nowhere.
            yield {"client": client, "api_key": "none", "api_base": NOWHERE}

    def _given(self) -> dict[str, Any]:
        question = self.question
        stall = max(1.0, min(question.stall_s, self.until - self.clock()))
        given: dict[str, Any] = {
            "model": question.model,
            "messages": list(question.messages),
            "max_tokens": question.max_tokens,
            # Without a key LiteLLM would look for one in the environment, and send it to whatever the base URL names.
            "api_key": question.secret.reveal() if question.secret else "none",
            "timeout": stall,
            "num_retries": 0,
            "max_retries": 0,
            "drop_params": True,
        }
        if question.api_base:
            given["api_base"] = question.api_base
        if question.temperature is not None:
            given["temperature"] = question.temperature
        if question.tools:
            given["tools"] = list(question.tools)
        if question.schema is not None:
            form = {"name": "answer", "schema": question.schema, "strict": True}
            given["response_format"] = {"type": "json_schema", "json_schema": form}
        return given

    def _answer(self) -> Answer:
        self._hear(self.veil.rest())
        text, name = "".join(self.text), self.question.asked.name
        counted = self.counts is not None and self.counts[1] > 0
        usage = self._counted() if counted else self._estimate()
        if self.finish == "content_filter":
            raise ModelError("refused", f"{name}'s answer was withheld by its provider's filter.", usage)
        heard: dict[str, Any] = {"pieces": max(1, self.heard), "first_s": self.first_s}
        if self.question.tools and (calls := self._calls()):
            return Answer(text, "tools", usage, counted, 0.0, 1, calls, **heard)
        if self.finish in ("tool_calls", "function_call") and not text.strip():
            return Answer("", "tools", usage, counted, 0.0, 1, **heard)
        if not text.strip():
            cut = self.finish == "length"
            why = " before it said anything: its tokens went into thinking. Allow more of them." if cut else "."
            raise ModelError("empty", f"{name} {'was cut' if cut else 'gave an empty answer'}{why}", usage)
        return Answer(text, "length" if self.finish == "length" else "stop", usage, counted, 0.0, 1, **heard)

    def _calls(self) -> tuple[ToolCall, ...]:
        """The calls, without the key that a server may have put into one."""
        secret = self.question.secret
        hidden = secret.hidden_in if secret else str
        return tuple(ToolCall(hidden(c.id)[:200], hidden(c.name)[:200], hidden(c.arguments)) for c in self.calls.calls())

    def _counted(self) -> Usage:
        tokens_in, tokens_out = self.counts or (0, 0)
        return self._usage(tokens_in, tokens_out)

    def _estimate(self) -> Usage:
        """What the call cost where the server did not say: an upper estimate."""
        called = "".join(call.arguments for call in self.calls.calls())
        written = sum(tokens_in_text(text) for text in ("".join(self.text), "x" * self.thought, called))
        return self._usage(tokens_of(self.question.messages, self.question.tools), written)

    def _usage(self, tokens_in: int, tokens_out: int) -> Usage:
        money = self.price.of(tokens_in, tokens_out) if self.price else 0.0
        unpriced = 0 if self.price else tokens_in + tokens_out
        return Usage(tokens_in=tokens_in, tokens_out=tokens_out, money=money, unpriced=unpriced)


def _counts(usage: Any) -> tuple[int, int] | None:
    """Tokens of the question and of the answer; None where the server's numbers are none."""
    found = [getattr(usage, name, None) for name in ("prompt_tokens", "completion_tokens")]
    if not all(isinstance(count, int) and 0 <= count < 10**9 for count in found):
        return None
    return int(found[0] or 0), int(found[1] or 0)


def _sleep(seconds: float, cancelled: Callable[[], bool], clock: Callable[[], float]) -> None:
    until = clock() + seconds
    while clock() < until:
        if cancelled():
            raise Cancelled
        time.sleep(min(LOOK_S, max(0.0, until - clock())))
