"""What a judge sees of a candidate, and what it says about it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import model_validator

from agents.rubric import DIMENSIONS, LEVELS
from gpu_runner.contracts import Contract

Skill = Literal["from_scratch", "feedback"]


@dataclass(frozen=True)
class Case:
    """One candidate. Texts by path; `parent` empty where there is none; `points`: the feedback it answers, or the
    constraints of its task; `facts`: what was measured, in sentences; `measured`: numbers of the same by name, for features."""

    reference: str
    files: Mapping[str, str]
    parent: Mapping[str, str] = field(default_factory=dict)
    skill: str = "from_scratch"
    target: str = ""
    task: str = ""
    points: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    measured: Mapping[str, float | None] = field(default_factory=dict)


class Line(Contract):
    """Lines of a file of the candidate that speak for a level."""

    dimension: str
    file: str
    first: int
    last: int


class Judgement(Contract):
    """`levels`: by dimension the chances of the levels 1 to 5. `low`, `high`: the interval of levels that holds the experts'
    one with `coverage`, on data not seen. `apart`: levels between the judge's own answers where they differ most."""

    levels: dict[str, tuple[float, float, float, float, float]]
    hack: float
    low: dict[str, int] = {}
    high: dict[str, int] = {}
    coverage: float | None = None
    rationale: dict[str, str] = {}
    lines: tuple[Line, ...] = ()
    apart: int = 0

    @model_validator(mode="after")
    def _whole(self) -> Judgement:
        if set(self.levels) != set(DIMENSIONS):
            raise ValueError(f"a judgement has the dimensions {', '.join(DIMENSIONS)}")
        if any(abs(sum(chances) - 1) > 1e-6 or min(chances) < 0 for chances in self.levels.values()):
            raise ValueError("the chances of the levels do not sum to 1")
        if not 0 <= self.hack <= 1:
            raise ValueError("the chance of a hack lies outside of 0 to 1")
        return self

    def mean(self, dimension: str) -> float:
        """The expected level."""
        return sum(level * chance for level, chance in zip(LEVELS, self.levels[dimension], strict=True))

    @property
    def merit(self) -> float:
        """The expected level over all dimensions: what a judge's order is, and what its order is measured by."""
        return sum(self.mean(key) for key in DIMENSIONS) / len(DIMENSIONS)

    @property
    def doubt(self) -> float:
        """How unsure it is, 0 to 1: the entropy of the levels over that of equal chances, as a mean over the dimensions."""
        bits = [-sum(p * math.log(p) for p in chances if p > 0) for chances in self.levels.values()]
        return sum(bits) / (len(bits) * math.log(len(LEVELS)))

    def level(self, dimension: str) -> int:
        """The median level."""
        total = 0.0
        for level, chance in zip(LEVELS, self.levels[dimension], strict=True):
            total += chance
            if total >= 0.5:
                return level
        return LEVELS[-1]

    @property
    def stored(self) -> dict[str, Any]:
        return self.model_dump(mode="json")
