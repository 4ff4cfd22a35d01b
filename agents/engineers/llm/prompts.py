"""The prompts in `agents/prompts/`: read, addressed by their content, and filled in without ever reading what is filled in.

A place is `{{name}}`. Places are found in the prompt alone and in one pass: braces in a user's program stay what they are. What
a user or a model wrote is put between two marks that its own text cannot hold, since they carry a digest of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from gpu_runner.contracts import digest

if TYPE_CHECKING:
    from agents.engineers import Context

FOLDER = Path(__file__).resolve().parents[2] / "prompts"
SHORT = 1500  # characters that are left of a part when room is short
_PLACE = re.compile(r"\{\{(\w+)\}\}")


@lru_cache
def ours() -> Mapping[str, str]:
    """The prompts that come with this version, by name."""
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.md"))}


def places(text: str) -> frozenset[str]:
    """The names of the places in a prompt."""
    return frozenset(_PLACE.findall(text))


@dataclass(frozen=True)
class Prompts:
    """The prompts of one run: ours, and the team's own where it has some. KeyError for a name that neither has."""

    own: Mapping[str, str] = field(default_factory=dict)

    def text(self, name: str) -> str:
        return self.own[name] if name in self.own else ours()[name]

    def filled(self, name: str, values: Mapping[str, str]) -> str:
        """The prompt with its places filled. KeyError for a place that nothing fills."""
        return _PLACE.sub(lambda place: values[place.group(1)], self.text(name))

    @property
    def version(self) -> str:
        """Twelve hexadecimal digits that change when a word of any prompt does."""
        return digest({**ours(), **self.own})[:12]


def prompts_of(context: Context) -> Prompts:
    """The prompts that a run was started with. KeyError when a text of its team is gone."""
    own = context.state.options.prompts
    return Prompts({name: context.blobs.get(ref).decode() for name, ref in own.items()})


@dataclass(frozen=True)
class Part:
    """One part of a question. `data`: written by others, so put between marks. `weight`: what has the least goes first when
    room is short, of equal ones the later; a part of weight 0 always stays whole. `whole`: left out rather than cut."""

    title: str
    text: str
    data: bool = False
    weight: int = 0
    whole: bool = False

    @property
    def shown(self) -> str:
        if not self.data:
            return f"## {self.title}\n\n{self.text.strip()}\n"
        mark = digest(self.text.encode(errors="replace"))[:12]
        return f"## {self.title} (data)\n\n<<<{mark}\n{self.text.rstrip()}\n{mark}>>>\n"


@dataclass(frozen=True)
class Composed:
    """A question's text, how many of its parts were cut or left out for want of room, and the titles of those in it."""

    text: str
    cut: int
    titles: tuple[str, ...]


def composed(parts: Sequence[Part], room: int | None = None) -> Composed:
    """The parts in their order, in at most `room` bytes as far as that can be."""
    kept = [part for part in parts if part.text.strip()]
    touched: set[str] = set()

    def size() -> int:
        return sum(len(part.shown.encode(errors="replace")) for part in kept)

    for shorten in (True, False):
        for part in sorted((part for part in reversed(kept) if part.weight), key=lambda part: part.weight):
            if room is None or size() <= room:
                break
            at = next(i for i, one in enumerate(kept) if one.title == part.title)
            if part.whole or not shorten:
                del kept[at]
            elif len(part.text) > SHORT:
                kept[at] = replace(part, text=part.text[:SHORT] + "\n… (cut: no room)")
            else:
                continue
            touched.add(part.title)
    return Composed("\n".join(part.shown for part in kept), len(touched), tuple(part.title for part in kept))
