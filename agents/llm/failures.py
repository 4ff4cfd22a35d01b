"""What goes wrong between us and a model, as sentences with a way out. Nothing here needs LiteLLM: its exceptions are known by
their status and their words."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from agents.llm.guard import Forbidden
from agents.llm.keys import Secret
from agents.state import Usage

Kind = Literal[
    "key", "payment", "address", "model", "overflow", "refused", "busy", "server", "timeout", "request", "empty", "huge"
]
AGAIN: frozenset[Kind] = frozenset({"busy", "server"})  # what may be otherwise a moment later
MOST_SAID = 300  # characters of a server's own words

_OVERFLOW = re.compile(
    r"context (?:length|window|size)|context_length|maximum context|too many tokens|prompt is too long", re.I
)
_POLICY = re.compile(r"content[_ ](?:policy|filter|management)|safety", re.I)


class ModelError(Exception):
    """A call that brought no answer. The message is a sentence for the run page; `usage` is what it may have cost all the same;
    `wait_s`: how long the server asks to be left alone."""

    def __init__(self, kind: Kind, sentence: str, usage: Usage | None = None, wait_s: float | None = None) -> None:
        super().__init__(sentence)
        self.kind, self.usage, self.wait_s = kind, usage or Usage(), wait_s


@dataclass(frozen=True)
class Asked:
    """Who was asked, as far as sentences need it."""

    model: str
    api_base: str = ""
    key_name: str = ""
    secret: Secret | None = field(default=None, repr=False)

    @property
    def where(self) -> str:
        return f"the server at {urlsplit(self.api_base).netloc}" if self.api_base else "the provider"

    @property
    def name(self) -> str:
        """The model as its server calls it."""
        return self.model.partition("/")[2] or self.model


def explained(error: BaseException, asked: Asked) -> ModelError:
    """An exception out of a call as a `ModelError`. A server's words are quoted short, on one line, without the key; where it
    refuses a key they are not quoted at all, for some servers repeat what they were given."""
    status, words = getattr(error, "status_code", None), str(error)
    said = _said(words, asked)
    where = asked.where
    if "LLM Provider NOT provided" in words:
        return ModelError("model", f"{asked.model!r} does not say whose model it is: write openai/{asked.model} for any server "
                          "that speaks OpenAI's protocol, or another provider's prefix.")  # fmt: skip
    if isinstance(error, Forbidden):
        return ModelError("address", words)
    if isinstance(status, int) and 300 <= status < 400:
        return ModelError("address", f"{_capital(where)} sends elsewhere, which is not followed: give that URL.")
    if status in (401, 403):
        key = f"the key {asked.key_name}" if asked.key_name else "a call without a key"
        return ModelError("key", f"{_capital(where)} refuses {key} (status {status}). Check the key and what it may use.")
    if status == 402:
        return ModelError("payment", f"{_capital(where)} wants payment first: {said}")
    if status == 404:
        if re.search(r"\bmodel\b", _own_words(words), re.I):
            return ModelError("model", f"{_capital(where)} has no model {asked.name!r}: {said}")
        return ModelError("address", f"There is no chat at {asked.api_base or where}: the base URL usually ends with /v1.")
    if status == 413 or _OVERFLOW.search(words):
        return ModelError("overflow", f"The question is longer than what {asked.name} can take in: {said}")
    if status == 400 and _POLICY.search(words):
        return ModelError("refused", f"{asked.name} was not let to answer: {said}")
    if status == 429:
        return ModelError("busy", f"{_capital(where)} takes no more calls for now: {said}", wait_s=_wait_s(error))
    if status == 408 or "timed out" in words.lower():
        return ModelError("timeout", f"{_capital(where)} said nothing for too long.")
    if "Connection error" in words or "connect" in type(error).__name__.lower():
        return ModelError("server", f"Nothing answers at {asked.api_base or where}. Is the server running, and the URL right?")
    if isinstance(status, int) and 400 <= status < 500:
        return ModelError("request", f"{_capital(where)} did not take the question (status {status}): {said}")
    return ModelError("server", f"{_capital(where)} failed: {said}", wait_s=_wait_s(error))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _own_words(words: str) -> str:
    """What the server said, without the names of exceptions that LiteLLM puts before it and the copy that it puts behind."""
    words = words[:4000].partition(" Original exception:")[0]
    return re.sub(r"^(?:(?:litellm\.)?\w+(?:Error|Exception|Timeout)\s*[:-]\s*)+", "", words).strip()


def _said(words: str, asked: Asked) -> str:
    text = asked.secret.hidden_in(words) if asked.secret else words
    text = " ".join(_own_words(text).split())
    text = "".join(c if c.isprintable() else "?" for c in text)
    text = (text[:MOST_SAID] + "…" if len(text) > MOST_SAID else text) or "it gave no reason."
    return text if text[-1] in ".!?…" else f"{text}."


def _wait_s(error: BaseException) -> float | None:
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    try:
        return max(0.0, float(headers.get("retry-after", "")))
    except (TypeError, ValueError):
        return None
