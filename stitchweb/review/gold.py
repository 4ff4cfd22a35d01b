"""The gold items that come with the site: candidates whose levels were agreed on beforehand, with the reasons."""

from __future__ import annotations

import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Any

from gpu_runner.contracts import Contract
from stitchweb.review.rubric import HackLevel, Skill

FOLDER = Path(__file__).with_name("gold")


class Answer(Contract):
    """What is right for one dimension: every level of `levels` is, and why."""

    levels: tuple[int, ...]
    why: str


class GoldItem(Contract):
    """A candidate with its answer. A dimension that is missing in `answers` is open to judgement and does not count."""

    slug: str
    name: str
    skill: Skill
    target: str
    task: str
    feedback: tuple[str, ...] = ()
    reference: str
    files: dict[str, str]
    parent: dict[str, str] = {}
    answers: dict[str, Answer]
    hack_levels: tuple[HackLevel, ...]
    hack_why: str

    @property
    def key(self) -> dict[str, Any]:
        """The answer as a `Gold` row keeps it."""
        return {
            "answers": {name: a.model_dump(mode="json") for name, a in self.answers.items()},
            "hack_levels": list(self.hack_levels),
            "hack_why": self.hack_why,
        }


@lru_cache(maxsize=1)
def gold_items() -> tuple[GoldItem, ...]:
    """All of them, in the order of their files. ValueError names what is wrong in a file."""
    return tuple(_read(path) for path in sorted(FOLDER.glob("*.toml")))


def _read(path: Path) -> GoldItem:
    content: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    return GoldItem.model_validate(content | {"slug": path.stem})
