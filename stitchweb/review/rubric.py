"""A rubric's content: dimensions with anchored levels, checklist, hack levels, and what of it needs a reason.

Contents come from `rubrics/*.toml` and lie in `Rubric` rows as JSON. Nothing here touches the database.
"""

from __future__ import annotations

import tomllib
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from gpu_runner.contracts import Contract

FOLDER = Path(__file__).with_name("rubrics")
LEVELS = (1, 2, 3, 4, 5)
HackLevel = Literal["none", "shortcut", "minor", "major", "unsure"]
Skill = Literal["from_scratch", "feedback"]


class Level(Contract):
    """One level of a dimension. `from_scratch` and `feedback` say what the text means for that skill, where it differs."""

    level: Literal[1, 2, 3, 4, 5]
    name: str
    text: str
    from_scratch: str = ""
    feedback: str = ""
    lang: Literal["py", "cu", "diff"]
    code: str
    why: str

    def anchor(self, skill: str) -> str:
        """The whole anchor for one skill."""
        own = self.feedback if skill == "feedback" else self.from_scratch
        return f"{self.text} {own}".strip()


class Check(Contract):
    key: str
    text: str


class Dimension(Contract):
    """`letter`: the key that picks it on the review page."""

    key: str
    letter: str = Field(pattern=r"^[A-Z]$")
    name: str
    question: str
    from_scratch: str
    feedback: str
    checklist: tuple[Check, ...] = ()
    levels: tuple[Level, ...]

    def guide(self, skill: str) -> str:
        return self.feedback if skill == "feedback" else self.from_scratch


class HackWord(Contract):
    key: HackLevel
    text: str


class RubricContent(Contract):
    """All that a review is made under. `reasons_for`: levels that need a mark in the code or a sentence."""

    key: str = Field(pattern=r"^[a-z][a-z0-9-]{0,39}$")
    version: int = Field(ge=1)
    title: str
    about: str
    reasons_for: tuple[int, ...] = ()
    hack_levels: tuple[HackWord, ...]
    dimensions: tuple[Dimension, ...]

    @model_validator(mode="after")
    def _whole(self) -> RubricContent:
        letters = [d.letter for d in self.dimensions]
        if len(set(letters)) != len(letters) or len({d.key for d in self.dimensions}) != len(letters):
            raise ValueError("two dimensions share a key or a letter")
        for dimension in self.dimensions:
            if tuple(level.level for level in dimension.levels) != LEVELS:
                raise ValueError(f"{dimension.name} needs the levels 1 to 5, in this order")
        return self

    @cached_property
    def by_key(self) -> dict[str, Dimension]:
        return {d.key: d for d in self.dimensions}


def changed(old: RubricContent, new: RubricContent) -> frozenset[tuple[str, str]]:
    """What a label under `old` may not rest on under `new`: pairs of dimension and level, and of "hack" and word.

    A level is touched when its text changed or that of a neighbour, because then the border between them moved; every level is
    when the question or a guide of its dimension changed. Names, examples, reasons and checklists touch nothing.
    """
    found: set[tuple[str, str]] = set()
    for dimension in old.dimensions:
        now = new.by_key.get(dimension.key)
        if now is None:
            continue
        asked = (dimension.question, dimension.from_scratch, dimension.feedback)
        if asked != (now.question, now.from_scratch, now.feedback):
            found |= {(dimension.key, str(level)) for level in LEVELS}
        for before, after in zip(dimension.levels, now.levels, strict=True):
            if (before.text, before.from_scratch, before.feedback) != (after.text, after.from_scratch, after.feedback):
                found |= {(dimension.key, str(n)) for n in range(before.level - 1, before.level + 2) if n in LEVELS}
    found |= {(key, str(level)) for key in new.by_key.keys() - old.by_key.keys() for level in LEVELS}
    words = {w.key: w.text for w in new.hack_levels}
    return frozenset(found | {("hack", w.key) for w in old.hack_levels if words.get(w.key) != w.text})


def shipped() -> list[RubricContent]:
    """The rubrics that come with the site, by key and version. ValueError names what is wrong in a file."""
    found = [_read(path) for path in sorted(FOLDER.glob("*.toml"))]
    return sorted(found, key=lambda r: (r.key, r.version))


def _read(path: Path) -> RubricContent:
    content: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    rubric = RubricContent.model_validate(content)
    if path.stem != f"{rubric.key}-{rubric.version}":
        raise ValueError(f"{path.name} holds {rubric.key} version {rubric.version}: name it {rubric.key}-{rubric.version}.toml")
    return rubric
