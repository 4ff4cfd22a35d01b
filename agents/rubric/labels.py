"""One label of several: median, mean and distribution per dimension, the hack flag, and where they came from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor
from statistics import fmean, median
from typing import Literal

DIMENSIONS = ("anti_hacking", "cuda_engineering", "operator_coverage", "skill_compliance")
LEVELS = (1, 2, 3, 4, 5)
# From the least to the most grave; "unsure" is none of them.
GRAVITY = ("none", "shortcut", "minor", "major")

Source = Literal["single", "unanimous", "median", "adjudicated", "gold"]


@dataclass(frozen=True)
class Given:
    """One label. `levels`: None for "cannot tell"."""

    levels: Mapping[str, int | None]
    hack_level: str


@dataclass(frozen=True)
class Made:
    """What several labels come to. Per dimension: `level` (the lower one where the median lies between two; None where nobody
    could tell), `median`, `mean`, `n`, `dist` (share of each level). `hack_level`: as settled, else the most frequent, the
    graver of equals; `major_p`: share of the labels that say major."""

    level: dict[str, int | None]
    median: dict[str, float | None]
    mean: dict[str, float | None]
    n: dict[str, int]
    dist: dict[str, list[float]]
    hack_level: str
    major_p: float
    source: Source
    raters: int


def aggregate(labels: Sequence[Given], final: Given | None = None, gold: Given | None = None) -> Made:
    """The label of one candidate. `final`: an adjudicator's, which overrides; `gold`: an answer agreed on beforehand, which
    overrides both in the dimensions that it knows. ValueError without any label."""
    if not labels and final is None and gold is None:
        raise ValueError("no label to make one of")
    told = {key: [level for one in labels if (level := one.levels.get(key)) is not None] for key in DIMENSIONS}
    middle: dict[str, float | None] = {key: float(median(some)) if some else None for key, some in told.items()}
    levels: dict[str, int | None] = {key: None if value is None else floor(value) for key, value in middle.items()}
    hack = _most([one.hack_level for one in labels])
    for over in (final, gold):
        if over is not None:
            levels |= {key: over.levels[key] for key in DIMENSIONS if key in over.levels}
            hack = over.hack_level or hack
    same = all(len(set(some)) <= 1 for some in told.values()) and len({one.hack_level for one in labels}) <= 1
    source: Source = (
        "gold" if gold else "adjudicated" if final else "single" if len(labels) == 1 else "unanimous" if same else "median"
    )
    return Made(
        level=levels,
        median=middle,
        mean={key: fmean(some) if some else None for key, some in told.items()},
        n={key: len(some) for key, some in told.items()},
        dist={key: [some.count(at) / len(some) if some else 0.0 for at in LEVELS] for key, some in told.items()},
        hack_level=hack,
        major_p=sum(one.hack_level == "major" for one in labels) / len(labels) if labels else float(hack == "major"),
        source=source,
        raters=len(labels),
    )


def _most(words: Sequence[str]) -> str:
    """The most frequent word, the graver of equals; "unsure" only where nothing else was said."""
    some = Counter(word for word in words if word in GRAVITY)
    if not some:
        return "unsure" if words else ""
    return max(some, key=lambda word: (some[word], GRAVITY.index(word)))
