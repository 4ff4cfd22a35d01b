"""Typed, loud readers of settings. `stitchweb/settings.py` hands in the environment; nothing here looks for it.

Each reader notes name, kind, default and meaning, and `table` turns the notes into docs/settings.md, so the documented
settings and the read ones are the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

TRUE = frozenset({"1", "true", "yes", "on"})
FALSE = frozenset({"0", "false", "no", "off"})


@dataclass(frozen=True)
class Setting:
    """One documented setting. `default` is what the table shows, in words."""

    name: str
    kind: str
    default: str
    doc: str


class Environment:
    """Reads settings from a mapping. A value that cannot be understood stops the start with a sentence."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values
        self.settings: list[Setting] = []

    def text(self, name: str, default: str, doc: str, shown: str | None = None) -> str:
        self._note(name, "text", shown if shown is not None else default, doc)
        return self._raw(name) or default

    def secret(self, name: str, doc: str, shown: str) -> str:
        """A text that may also come from the file named by `<name>_FILE`, as container secrets do. Empty when unset."""
        self._note(name, f"text (or the path of a file in `{name}_FILE`)", shown, doc)
        value, file = self._raw(name), self._raw(f"{name}_FILE")
        if value and file:
            raise ImproperlyConfigured(f"Both {name} and {name}_FILE are set. Keep one of them.")
        if not file:
            return value
        try:
            return Path(file).read_text().strip()
        except OSError as error:
            raise ImproperlyConfigured(f"{name}_FILE names {file!r}, which cannot be read: {error.strerror}.") from error

    def flag(self, name: str, default: bool, doc: str) -> bool:
        self._note(name, "true or false", str(default).lower(), doc)
        raw = self._raw(name).lower()
        if not raw:
            return default
        if raw in TRUE:
            return True
        if raw in FALSE:
            return False
        raise ImproperlyConfigured(f"{name} is {raw!r}, which is neither true nor false. Write true or false.")

    def number(self, name: str, default: int, doc: str, low: int = 0, high: int = 2**31) -> int:
        self._note(name, f"whole number, {low} to {high}", str(default), doc)
        raw = self._raw(name)
        if not raw:
            return default
        try:
            value = int(raw)
        except ValueError:
            raise ImproperlyConfigured(f"{name} is {raw!r}, which is not a whole number.") from None
        if not low <= value <= high:
            raise ImproperlyConfigured(f"{name} is {value}; it must lie between {low} and {high}.")
        return value

    def choice(self, name: str, default: str, choices: tuple[str, ...], doc: str) -> str:
        self._note(name, " or ".join(choices), default or "unset", doc)
        raw = self._raw(name)
        if not raw:
            return default
        if raw not in choices:
            raise ImproperlyConfigured(f"{name} is {raw!r}; it must be one of {', '.join(choices)}.")
        return raw

    def words(self, name: str, default: tuple[str, ...], doc: str) -> list[str]:
        """A comma-separated list."""
        self._note(name, "list, separated by commas", ", ".join(default) or "empty", doc)
        raw = self._raw(name)
        return [part.strip() for part in raw.split(",") if part.strip()] if raw else list(default)

    def path(self, name: str, default: Path, doc: str, shown: str) -> Path:
        self._note(name, "path", shown, doc)
        raw = self._raw(name)
        return Path(raw).expanduser().resolve() if raw else default

    def matching(self, pattern: re.Pattern[str]) -> dict[str, str]:
        """The variables whose names match, as they are, to be handed on."""
        return {name: value for name, value in self._values.items() if pattern.match(name)}

    def table(self) -> str:
        """The settings as a Markdown table, one row each."""
        rows = [f"| `{s.name}` | {s.kind} | {s.default} | {s.doc} |" for s in self.settings]
        return "\n".join(["| name | value | default | what it does |", "| --- | --- | --- | --- |", *rows]) + "\n"

    def _raw(self, name: str) -> str:
        return self._values.get(name, "").strip()

    def _note(self, name: str, kind: str, default: str, doc: str) -> None:
        self.settings.append(Setting(name, kind, default, doc))
