"""How many tokens a text has, without a tokenizer: an estimate that errs upward, for the worst case of a call.

On this repository's programs, kernels and pages the tokenizers that come with LiteLLM take 2.3 (tables of numbers) to 4.4 bytes
into a token; two leave room for the coarser vocabularies of small models.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

BYTES_A_TOKEN = 2.0
A_MESSAGE = 8  # tokens of a message's own marks


def tokens_in_text(text: str) -> int:
    """An upper estimate of the text's tokens."""
    return math.ceil(len(text.encode(errors="replace")) / BYTES_A_TOKEN)


def tokens_of(messages: Iterable[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] = ()) -> int:
    """An upper estimate of what a question of these messages costs, with the tools that it offers."""
    spoken = sum(tokens_in_text(message.get("content") or "") + A_MESSAGE for message in messages)
    called = [message["tool_calls"] for message in messages if message.get("tool_calls")]
    return spoken + sum(tokens_in_text(json.dumps(more)) for more in [*called, *([list(tools)] if tools else [])])
