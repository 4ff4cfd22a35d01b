"""The local judge: ordinal regression on features, trained on a CPU from a team's labels, with intervals that hold what
they say.

Per dimension the chance that the level lies above 1, 2, 3 and 4 is a logistic regression each (E. Frank and M. Hall, 2001); a
further one is the chance of a major hack. scikit-learn trains them; what is kept are means, scales and weights as JSON, so that
scoring needs no library and no code is ever loaded. Intervals are conformal: on cases whose group was not trained on, the mass
around the median that had to be taken to reach the experts' level, at its quantile for the wanted coverage.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from agents.judges.case import Case, Judgement, Line
from agents.judges.features import COLUMNS, NAMES, SIGNS, features, where
from agents.rubric import DIMENSIONS, LEVELS

VERSION = "stitchweb.local-judge/1"
COVERAGE = 0.9
FOLDS = 5
LEAST = 30  # labelled cases, below which nothing is trained
_WORDS = {s.name: s.words for s in SIGNS}


class TooFew(Exception):
    """Too few labels to train on. The message says how many there are and how many are needed."""


@dataclass(frozen=True)
class Example:
    """A case with what its labels came to. `levels`: None for "cannot tell"; `group`: its reference group."""

    case: Case
    levels: Mapping[str, int | None]
    hack: bool
    group: str
    weight: float = 1.0


Tell = Callable[[str, int, int], None]


def train(examples: Sequence[Example], tell: Tell = lambda *told: None) -> tuple[dict[str, Any], list[Judgement]]:
    """Weights as JSON can hold them, and a judgement of each example by a model that saw nothing of its group.

    TooFew below `LEAST` examples or `FOLDS` groups. Seconds for hundreds of examples.
    """
    groups = sorted({e.group for e in examples})
    if len(examples) < LEAST or len(groups) < FOLDS:
        raise TooFew(
            f"There are {len(examples)} labelled candidates in {len(groups)} reference groups; a local judge needs {LEAST} in"
            f" {FOLDS} or more."
        )
    tell("Reading code", 0, len(examples))
    rows = [features(e.case) for e in examples]
    random.Random(4).shuffle(groups)  # noqa: S311
    fold_of = {group: at % FOLDS for at, group in enumerate(groups)}
    raw: list[dict[str, Any] | None] = [None] * len(examples)
    for fold in range(FOLDS):
        tell("Training", fold, FOLDS + 1)
        seen = [i for i, e in enumerate(examples) if fold_of[e.group] != fold]
        weights = _fitted([rows[i] for i in seen], [examples[i] for i in seen])
        for i, e in enumerate(examples):
            if fold_of[e.group] == fold:
                raw[i] = chances(weights, rows[i])
    tell("Training", FOLDS, FOLDS + 1)
    weights = _fitted(rows, examples)
    weights["mass"] = {key: _mass(raw, examples, key) for key in DIMENSIONS}
    held_out = [judged(weights, e.case, row, of) for e, row, of in zip(examples, rows, raw, strict=True) if of is not None]
    return weights, held_out


def _fitted(rows: Sequence[Sequence[float]], examples: Sequence[Example]) -> dict[str, Any]:
    """One model on these rows."""
    import numpy as np
    from sklearn.linear_model import LogisticRegression

    x = np.asarray(rows, dtype=np.float64)
    mean, scale = x.mean(0), x.std(0)
    scale[scale < 1e-9] = 1.0
    z = np.clip((x - mean) / scale, -4, 4)
    z[:, len(NAMES) :] *= 0.25  # words count less than signs
    weight = np.asarray([e.weight for e in examples])

    def fit(use: Any, target: Any, c: float = 0.02) -> list[float]:
        """Weights and intercept; a constant chance where all are alike."""
        share = float(np.average(target, weights=weight[use]))
        if share in (0.0, 1.0):
            total = float(weight[use].sum())
            chance = (share * total + 0.5) / (total + 1)
            return [*[0.0] * z.shape[1], math.log(chance / (1 - chance))]
        model = LogisticRegression(C=c, max_iter=200)
        model.fit(z[use], target, sample_weight=weight[use])
        return [*map(float, model.coef_[0]), float(model.intercept_[0])]

    above: dict[str, list[list[float]]] = {}
    for key in DIMENSIONS:
        use = np.asarray([e.levels.get(key) is not None for e in examples])
        levels = np.asarray([e.levels.get(key) or 0 for e in examples])[use]
        above[key] = [fit(use, levels > k) for k in LEVELS[:-1]] if use.any() else []
    every = np.ones(len(examples), dtype=bool)
    hack = fit(every, np.asarray([e.hack for e in examples]), 0.2)
    return {
        "version": VERSION, "mean": mean.round(8).tolist(), "scale": scale.round(8).tolist(), "names": list(NAMES),
        "columns": COLUMNS, "above": above, "hack": hack, "n": len(examples),
    }  # fmt: skip


def chances(weights: Mapping[str, Any], row: Sequence[float]) -> dict[str, Any]:
    """Chances of the levels by dimension, of a hack, and what the numbers contributed. Pure Python."""
    z = scaled(weights, row)
    levels, parts = {}, {}
    for key in DIMENSIONS:
        fits = weights["above"].get(key) or []
        if not fits:
            levels[key] = [0.2] * 5
            continue
        over, least = [], 1.0
        for one in fits:
            least = min(least, _sigmoid(_dot(one, z)))  # never more likely to lie above a higher level
            over.append(least)
        levels[key] = [1 - over[0], *(a - b for a, b in pairwise(over)), over[-1]]
        mean = [sum(one[i] for one in fits) / len(fits) * z[i] for i in range(len(NAMES))]
        parts[key] = mean
    return {"levels": levels, "hack": _sigmoid(_dot(weights["hack"], z)), "parts": parts}


def scaled(weights: Mapping[str, Any], row: Sequence[float]) -> list[float]:
    z = [max(-4.0, min(4.0, (v - m) / s)) for v, m, s in zip(row, weights["mean"], weights["scale"], strict=True)]
    return [v * (0.25 if i >= len(NAMES) else 1.0) for i, v in enumerate(z)]


def _dot(one: Sequence[float], z: Sequence[float]) -> float:
    return sum(w * v for w, v in zip(one, z, strict=False)) + one[-1]


def _sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value)) if value >= 0 else (e := math.exp(value)) / (1 + e)


def score(weights: Mapping[str, Any], case: Case) -> Judgement:
    """The judgement of one case. ValueError for weights of another version."""
    if weights.get("version") != VERSION or weights.get("names") != list(NAMES) or weights.get("columns") != COLUMNS:
        raise ValueError("these weights are of another version of the local judge: train it again")
    row = features(case)
    return judged(weights, case, row, chances(weights, row))


def judged(weights: Mapping[str, Any], case: Case, row: Sequence[float], of: Mapping[str, Any]) -> Judgement:
    """A judgement out of chances."""
    levels = {key: _whole(of["levels"][key]) for key in DIMENSIONS}
    spans = {key: span(levels[key], weights["mass"][key]) for key in DIMENSIONS}
    rationale, lines = {}, []
    for key in DIMENSIONS:
        said, found = _reasons(case, row, of["parts"].get(key, []))
        rationale[key] = said
        lines += [Line(dimension=key, file=path, first=at, last=at) for path, at in found]
    return Judgement(
        levels=levels, hack=of["hack"], low={k: s[0] for k, s in spans.items()}, high={k: s[1] for k, s in spans.items()},
        coverage=COVERAGE, rationale=rationale, lines=tuple(lines), apart=max(high - low for low, high in spans.values()),
    )  # fmt: skip


def _whole(some: Sequence[float]) -> tuple[float, float, float, float, float]:
    total = sum(max(0.0, v) for v in some)
    a, b, c, d, e = (max(0.0, v) / total for v in some)
    return a, b, c, d, e


def _order(some: Sequence[float]) -> list[int]:
    """Levels from the median outwards, the likelier side first: what an interval is grown by."""
    total, at = 0.0, LEVELS[-1]
    for level, chance in zip(LEVELS, some, strict=True):
        total += chance
        if total >= 0.5:
            at = level
            break
    low = high = at
    order = [at]
    while len(order) < len(LEVELS):
        down = some[low - 2] if low > 1 else -1.0
        up = some[high] if high < 5 else -1.0
        if down >= up:
            low -= 1
            order.append(low)
        else:
            high += 1
            order.append(high)
    return order


def span(some: Sequence[float], mass: float) -> tuple[int, int]:
    """The levels around the median that hold `mass`."""
    total, taken = 0.0, []
    for level in _order(some):
        taken.append(level)
        total += some[level - 1]
        if total >= mass:
            break
    return min(taken), max(taken)


def _mass(raw: Sequence[Mapping[str, Any] | None], examples: Sequence[Example], key: str) -> float:
    """The mass that reached the experts' level in `COVERAGE` of the cases that were not trained on."""
    needed = []
    for of, e in zip(raw, examples, strict=True):
        level = e.levels.get(key)
        if of is None or level is None:
            continue
        some = _whole(of["levels"][key])
        order = _order(some)
        needed.append(sum(some[one - 1] for one in order[: order.index(level) + 1]))
    if not needed:
        return 1.0
    ordered = sorted(needed)
    return ordered[min(len(ordered) - 1, math.ceil((len(ordered) + 1) * COVERAGE) - 1)]


def _reasons(case: Case, row: Sequence[float], parts: Sequence[float]) -> tuple[str, list[tuple[str, int]]]:
    """The three signs that moved it most, in words, with where they stand."""
    ranked = sorted(range(len(parts)), key=lambda i: -abs(parts[i]))
    said: list[str] = []
    found: list[tuple[str, int]] = []
    for i in ranked:
        base = NAMES[i].removeprefix("n_")
        if base not in _WORDS or any(_WORDS[base] in one for one in said) or abs(parts[i]) < 0.05:
            continue
        there = row[i] > 0
        said.append(f"{'' if there else 'no '}{_WORDS[base]} ({'for' if parts[i] > 0 else 'against'})")
        if there and (place := where(case, base)):
            found.append(place)
        if len(said) == 3:
            break
    return ", ".join(said), found
