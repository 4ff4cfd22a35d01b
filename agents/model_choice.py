"""Which model a role asks, as a state keeps it."""

from __future__ import annotations

from typing import Literal
from urllib.parse import urlsplit

from pydantic import field_validator

from gpu_runner.contracts import Contract

Role = Literal["planner", "coder", "verifier"]


class ModelChoice(Contract):
    """A model that a role asks.

    `model` as LiteLLM names it, with its provider; `api_base` where it is no hosted one. `key` is the name under which the
    process keeps its key, which itself is in no state. `context`: tokens of question and answer together. Prices in dollars a
    million tokens, where the known ones are not to be used.
    """

    model: str
    api_base: str = ""
    key: str = ""
    max_tokens: int = 16_384  # of one answer
    context: int | None = None
    temperature: float | None = None
    seconds: float = 600.0  # of one question with all its tries
    price_in: float | None = None
    price_out: float | None = None

    @field_validator("api_base")
    @classmethod
    def _address(cls, url: str) -> str:
        parts = urlsplit(url)
        if url and (parts.scheme not in ("http", "https") or not parts.hostname):
            raise ValueError(f"the base URL {url!r} is no http:// or https:// address, such as http://localhost:8000/v1")
        if parts.username or parts.password or parts.query:
            raise ValueError("a base URL is shown to people, so no user, password or key may stand in it")
        return url
