"""Keeps payloads under their bound: first what nobody misses on a page goes, then long texts are cut, and it is said."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from agents.events.words import MAX_PAYLOAD
from gpu_runner.contracts import Contract, canonical_json

Payload = dict[str, Any]


def plain(value: Contract | Payload) -> Payload:
    """A contract as JSON that every parser reads: numbers that are not finite become strings, as in the contracts' own JSON."""
    cleaned = storable(value.model_dump(mode="json") if isinstance(value, Contract) else value)
    return cleaned if isinstance(cleaned, dict) else {}


def storable(value: Any) -> Any:
    """The same JSON as every parser and every database takes it. Programs utter what they like, and it travels far:
    numbers that are not finite, halves of characters, null bytes."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, dict):
        return {storable(str(k)): storable(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [storable(v) for v in value]
    if isinstance(value, str):
        return value.encode(errors="replace").decode().replace("\0", "\ufffd")
    return value


def fits(payload: Payload) -> bool:
    return len(canonical_json(payload).encode()) <= MAX_PAYLOAD


def cut(text: str, most: int) -> str:
    """The text, or its beginning and an ellipsis. Length in characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def bounded(payload: Payload, *ways: Callable[[Payload], Payload]) -> Payload:
    """The payload after as few of `ways` as needed to fit, in their order; in the end every text is cut ever shorter."""
    for way in ways:
        if fits(payload):
            return payload
        payload = way(payload)
    most = 400
    while not fits(payload) and most > 8:
        payload = _shorter(payload, most, most // 8)
        most //= 2
    return payload


def _shorter(value: Any, texts: int, items: int) -> Any:
    if isinstance(value, str):
        # addresses by content and ids keep their meaning only whole
        return value if len(value) == 64 else cut(value, texts)
    if isinstance(value, dict):
        return {k: _shorter(v, texts, items) for k, v in list(value.items())[: max(items, 24)]}
    if isinstance(value, list):
        return [_shorter(v, texts, items) for v in value[:items]]
    return value


def without(*path: str) -> Callable[[Payload], Payload]:
    """A way: empty the list, dict or text at `path` (one key per level; lists on the way are walked)."""

    def empty(value: Any, keys: tuple[str, ...]) -> Any:
        if isinstance(value, list):
            return [empty(v, keys) for v in value]
        if not isinstance(value, dict) or keys[0] not in value:
            return value
        inner = value[keys[0]]
        new = empty(inner, keys[1:]) if len(keys) > 1 else type(inner)() if inner is not None else None
        return {**value, keys[0]: new}

    def way(payload: Payload) -> Payload:
        result = empty(payload, path)
        return result if isinstance(result, dict) else payload

    return way
