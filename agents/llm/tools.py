"""Calls of tools: what a model asks to have done, put together from the pieces of a stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

MOST_CALLS = 16  # of one answer; more are not read


@dataclass(frozen=True)
class ToolCall:
    """`arguments` as the model wrote them, which need not be JSON."""

    id: str
    name: str
    arguments: str

    @property
    def said(self) -> dict[str, Any]:
        """The call as a message of a conversation repeats it."""
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": self.arguments}}


class Gathered:
    """Tool calls while they come in: whole, or cut anywhere, each piece with the number of its call."""

    def __init__(self) -> None:
        self._parts: dict[int, dict[str, str]] = {}
        self._last = 0

    def add(self, pieces: Any) -> int:
        """Takes in what one chunk brings; how many characters that were. What is no tool call is passed over."""
        size = 0
        for at, piece in enumerate(pieces if isinstance(pieces, list) else ()):
            function = _of(piece, "function")
            if function is None:
                continue
            index = _of(piece, "index")
            self._last = index if isinstance(index, int) else (self._last if _of(piece, "id") is None else at)
            if self._last not in self._parts and len(self._parts) == MOST_CALLS:
                continue
            call = self._parts.setdefault(self._last, {"id": "", "name": "", "arguments": ""})
            call["id"] = call["id"] or _text(_of(piece, "id"))
            call["name"] = call["name"] or _text(_of(function, "name"))
            more = _text(_of(function, "arguments"))
            call["arguments"] += more
            size += len(more)
        return size

    def calls(self) -> tuple[ToolCall, ...]:
        """Those that have a name; one without an id gets one."""
        found = [self._parts[index] for index in sorted(self._parts)]
        return tuple(ToolCall(c["id"] or f"call-{n}", c["name"], c["arguments"]) for n, c in enumerate(found, 1) if c["name"])

    def __bool__(self) -> bool:
        return bool(self._parts)


def _of(thing: Any, name: str) -> Any:
    return thing.get(name) if isinstance(thing, dict) else getattr(thing, name, None)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
