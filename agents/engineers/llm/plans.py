"""A Planner's answer as items of a to-do list, or a sentence why it is none."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

from agents.engineers import UnusableAnswer
from agents.engineers.llm.loose_json import NotJson, read
from agents.state import Todo

KINDS = ("fuse", "reduce", "epilogue", "layout", "memory", "algebra", "host", "other")
MOST_ITEMS = 12
_LISTS = ("todos", "todo", "items", "plan", "steps", "tasks")


def read_plan(text: str, rows: Collection[str] = ()) -> tuple[tuple[Todo, ...], str]:
    """The items, best first as the model put them, and its note. `rows`: keys of the profile's rows that items may name.

    Raises UnusableAnswer with a sentence when there is no JSON or no item with a title in it. An empty list is a plan: the
    Planner has nothing left to try.
    """
    value, note = _document(text), ""
    if isinstance(value, dict):
        note = _text(value.get("note") or value.get("summary"), 600)
        found = next((value[name] for name in _LISTS if isinstance(value.get(name), list)), None)
        if found is None and "title" in value:
            found = [value]
        value = found
    if not isinstance(value, list):
        raise UnusableAnswer('The plan needs a list "todos" of objects, each with a "title".')
    items = [item for entry in value[: 4 * MOST_ITEMS] if (item := _item(entry, rows)) is not None][:MOST_ITEMS]
    if value and not items:
        raise UnusableAnswer('No item of "todos" is an object with a "title".')
    return tuple(items), note


def whole_program(why: str) -> Todo:
    """The plan of a Planner that cannot be read: one item, and the Coder sees the rest for itself."""
    return Todo(id="", kind="other", title="Optimise the whole program", why=why[:600])


def _document(text: str) -> Any:
    """The object of the answer; a list only where there is no object, for "[1]" in prose is a list too."""
    try:
        return read(text)
    except NotJson as error:
        try:
            return read(text, list)
        except NotJson:
            raise UnusableAnswer(str(error)) from error


def _item(entry: Any, rows: Collection[str]) -> Todo | None:
    if isinstance(entry, str) and entry.strip():
        return Todo(id="", kind="other", title=_text(entry, 200))
    if not isinstance(entry, Mapping) or not (title := _text(entry.get("title") or entry.get("name"), 200)):
        return None
    kind = _text(entry.get("kind"), 20).lower()
    return Todo(
        id="",
        kind=kind if kind in KINDS else "other",
        title=title,
        why=_text(entry.get("why") or entry.get("reason"), 600),
        ops=_texts(entry.get("ops"), 80),
        rows=tuple(row for row in _texts(entry.get("rows"), 120) if row in rows),
        constraints=_texts(entry.get("constraints"), 200),
        predicted=_ratio(entry.get("predicted") or entry.get("predicted_speedup")),
    )


def _text(value: Any, most: int) -> str:
    return " ".join(value.split())[:most] if isinstance(value, str) else ""


def _texts(value: Any, most: int) -> tuple[str, ...]:
    if isinstance(value, str):
        value = [value]
    return tuple(text for item in value[:24] if (text := _text(item, most))) if isinstance(value, list) else ()


def _ratio(value: Any) -> float | None:
    """A speedup of the whole program: a finite number from 1 to 1000; "1.5x" is one too."""
    if isinstance(value, str):
        value = value.strip().rstrip("xX×").strip()[:20]
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and 1.0 <= number <= 1000.0 else None
