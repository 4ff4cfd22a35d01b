"""What is other in a release than in the one before, by row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

MOST = 200  # lines; what is beyond is counted
_KINDS = (
    ("ratings", "label", "id"),
    ("finals", "final label", "id"),
    ("references", "reference", "sha256"),
    ("candidates", "candidate", "sha256"),
)


def changes(before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> list[str]:
    """Lines for the changelog: labels by their id, with the fields that changed."""
    if before is None:
        return ["First release."]
    found = [line for key, word, by in _KINDS for line in _of(before[key], now[key], word, by)]
    found += [f"rubric {name} came" for name in sorted(now["rubrics"].keys() - before["rubrics"].keys())]
    if not found:
        return ["Nothing changed."]
    more = [f"and {len(found) - MOST} more"] if len(found) > MOST else []
    return found[:MOST] + more


def _of(before: list[dict[str, Any]], now: list[dict[str, Any]], word: str, by: str) -> Iterator[str]:
    old, new = {row[by]: row for row in before}, {row[by]: row for row in now}
    for key in sorted(old.keys() | new.keys(), key=str):
        name = f"{word} {str(key)[:16]}"
        if key not in old:
            yield f"{name} came{_about(new[key])}"
        elif key not in new:
            yield f"{name} is gone{_about(old[key])}"
        elif old[key] != new[key]:
            yield f"{name} changed{_about(new[key])}: {', '.join(_fields(old[key], new[key]))}"


def _about(row: Mapping[str, Any]) -> str:
    return f" (candidate {row['sha256'][:12]})" if "pid" in row else ""


def _fields(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for key in sorted(old.keys() | new.keys()):
        a, b = old.get(key), new.get(key)
        if a == b:
            continue
        if isinstance(a, dict) and isinstance(b, dict):
            for inner in sorted(a.keys() | b.keys()):
                if a.get(inner) != b.get(inner):
                    yield f"{key}.{inner} {_short(a.get(inner))} → {_short(b.get(inner))}"
        else:
            yield f"{key} {_short(a)} → {_short(b)}"


def _short(value: Any) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= 40 else f"{text[:37]}…"
