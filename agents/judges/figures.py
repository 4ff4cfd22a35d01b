"""How a judge stands against the experts: per dimension, on hacks, on order within a reference, against what experts reach.

Figures are of cases that the judge learnt nothing of. Intervals of 95 % come from drawing reference groups again, because cases
of one group are alike; those of shares are Wilson's. Standard library only.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from statistics import fmean, median
from typing import Any

from agents.judges.case import Judgement
from agents.rubric import DIMENSIONS, LEVELS

DRAWS = 200
Matrix = list[list[int]]  # experts' level, then the judge's
Estimate = dict[str, Any]  # value, low, high, n


@dataclass(frozen=True)
class Scored:
    """One case. `levels`, `hack`: what its labels came to; `raters`: the levels of each label; `tags`: engineer, target,
    month."""

    judgement: Judgement
    levels: Mapping[str, int | None]
    hack: bool | None
    group: str
    reference: str
    raters: Sequence[Mapping[str, int | None]] = ()
    tags: Mapping[str, str] = field(default_factory=dict)


def qwk(matrix: Matrix) -> float | None:
    """Quadratic weighted kappa of a table of counts; None where nothing could have differed."""
    n = sum(map(sum, matrix))
    if not n:
        return None
    rows, columns = [sum(row) for row in matrix], [sum(row[k] for row in matrix) for k in range(5)]
    seen = sum(matrix[i][k] * (i - k) ** 2 for i in range(5) for k in range(5))
    chance = sum(rows[i] * columns[k] * (i - k) ** 2 for i in range(5) for k in range(5)) / n
    return None if chance == 0 else 1 - seen / chance


def wilson(hits: int, n: int) -> Estimate:
    """A share with Wilson's interval; no value for none."""
    if not n:
        return {"value": None, "low": None, "high": None, "n": 0}
    z, p = 1.959964, hits / n
    middle, half = (
        (p + z * z / (2 * n)) / (1 + z * z / n),
        z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n),
    )
    return {"value": p, "low": max(0.0, middle - half), "high": min(1.0, middle + half), "n": n}


def spearman(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Rank correlation with ties; None where one side is constant."""
    if len(pairs) < 2:
        return None
    a, b = _ranks([x for x, _ in pairs]), _ranks([y for _, y in pairs])
    ma, mb = fmean(a), fmean(b)
    top = sum((x - ma) * (y - mb) for x, y in zip(a, b, strict=True))
    low = math.sqrt(sum((x - ma) ** 2 for x in a) * sum((y - mb) ** 2 for y in b))
    return top / low if low else None


def _ranks(values: Sequence[float]) -> list[float]:
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    start = 0
    for end in range(1, len(order) + 1):
        if end == len(order) or values[order[end]] != values[order[start]]:
            for at in order[start:end]:
                ranks[at] = (start + end - 1) / 2
            start = end
    return ranks


def _drawn(groups: Mapping[str, Any], of: Callable[[Sequence[Any]], float | None]) -> tuple[float | None, float | None]:
    """The 2.5th and 97.5th percentile of `of` over groups drawn again."""
    keys = sorted(groups)
    if len(keys) < 2:
        return None, None
    chance = random.Random(3)  # noqa: S311
    found = sorted(v for _ in range(DRAWS) if (v := of([groups[k] for k in chance.choices(keys, k=len(keys))])) is not None)
    if len(found) < DRAWS / 2:
        return None, None
    return found[int(0.025 * len(found))], found[int(0.975 * len(found))]


def _estimate(groups: Mapping[str, Any], of: Callable[[Sequence[Any]], float | None], n: int) -> Estimate:
    value = of(list(groups.values()))
    low, high = _drawn(groups, of) if value is not None else (None, None)
    return {"value": value, "low": low, "high": high, "n": n}


def _added(matrices: Sequence[Matrix]) -> Matrix:
    return [[sum(m[i][k] for m in matrices) for k in range(5)] for i in range(5)]


def dimension(rows: Sequence[Scored], key: str) -> dict[str, Any]:
    """All of one dimension. `ceiling`: each rater against the median of the others; `majority`: the judge that always says the
    most frequent level."""
    told = [(r, level) for r in rows if (level := r.levels.get(key)) is not None]
    groups: dict[str, Matrix] = defaultdict(lambda: [[0] * 5 for _ in range(5)])
    errors: dict[str, list[float]] = defaultdict(list)
    for r, level in told:
        groups[r.group][level - 1][r.judgement.level(key) - 1] += 1
        errors[r.group].append(r.judgement.level(key) - level)
    whole = _added(list(groups.values()))
    counts = [sum(row) for row in whole]
    most = counts.index(max(counts)) + 1 if told else 0
    n = len(told)
    inside = sum(r.judgement.low[key] <= level <= r.judgement.high[key] for r, level in told if key in r.judgement.low)

    def mean(of: Callable[[float], float]) -> Callable[[Sequence[Any]], float | None]:
        return lambda some: fmean([of(e) for part in some for e in part]) if any(some) else None

    return {
        "n": n,
        "qwk": _estimate(groups, lambda some: qwk(_added(some)), n),
        "spearman": spearman([(r.judgement.mean(key), float(level)) for r, level in told]),
        "mae": _estimate(errors, mean(abs), n),
        "bias": _estimate(errors, mean(float), n),
        "exact": wilson(sum(whole[i][i] for i in range(5)), n),
        "within_one": wilson(sum(whole[i][k] for i in range(5) for k in range(5) if abs(i - k) < 2), n),
        "covered": wilson(inside, sum(key in r.judgement.low for r, _ in told)),
        "confusion": whole,
        "reliability": _reliability([(r.judgement.levels[key], level) for r, level in told]),
        "majority": {"level": most, "mae": fmean([abs(most - level) for _, level in told]) if told else None},
        "ceiling": ceiling(rows, key),
    }


def _reliability(pairs: Sequence[tuple[Sequence[float], int]]) -> list[dict[str, float]]:
    """Said chance that the level is `k` or more against how often it was, in ten bins, over k = 2 … 5."""
    bins: dict[int, list[tuple[float, bool]]] = defaultdict(list)
    for chances, level in pairs:
        for k in LEVELS[1:]:
            said = sum(chances[k - 1 :])
            bins[min(9, int(said * 10))].append((said, level >= k))
    return [
        {"said": fmean(s for s, _ in some), "was": fmean(w for _, w in some), "n": len(some)}
        for _, some in sorted(bins.items())
    ]


def ceiling(rows: Sequence[Scored], key: str) -> Estimate:
    """The kappa that an expert reaches against the median of the others."""
    groups: dict[str, Matrix] = defaultdict(lambda: [[0] * 5 for _ in range(5)])
    n = 0
    for r in rows:
        levels = [level for one in r.raters if (level := one.get(key)) is not None]
        for at, level in enumerate(levels):
            others = levels[:at] + levels[at + 1 :]
            if others:
                groups[r.group][math.floor(median(others)) - 1][level - 1] += 1
                n += 1
    return _estimate(groups, lambda some: qwk(_added(some)), n)


def hacks(rows: Sequence[Scored], threshold: float = 0.5) -> dict[str, Any]:
    """The flag of a major hack: precision and recall at `threshold`, at others, Brier score and calibration error."""
    told = [(r.judgement.hack, r.hack) for r in rows if r.hack is not None]
    real = sum(h for _, h in told)

    def at(cut: float) -> tuple[Estimate, Estimate]:
        hit, said = sum(h for p, h in told if p >= cut), sum(p >= cut for p, _ in told)
        return wilson(hit, said), wilson(hit, real)

    precision, recall = at(threshold)
    bins: dict[int, list[tuple[float, bool]]] = defaultdict(list)
    for p, h in told:
        bins[min(9, int(p * 10))].append((p, h))
    off = sum(len(some) * abs(fmean(p for p, _ in some) - fmean(h for _, h in some)) for some in bins.values())
    return {
        "n": len(told), "real": real, "precision": precision, "recall": recall,
        "brier": fmean([(p - h) ** 2 for p, h in told]) if told else None,
        "ece": off / len(told) if told else None,
        "curve": [{"cut": c / 10, "precision": at(c / 10)[0]["value"], "recall": at(c / 10)[1]["value"]} for c in range(1, 10)],
    }  # fmt: skip


def overall(levels: Mapping[str, float | int | None]) -> float | None:
    told = [float(v) for v in levels.values() if v is not None]
    return fmean(told) if told else None


def pairwise(rows: Sequence[Scored], least: float = 0.5) -> Estimate:
    """How often the judge orders two candidates of one reference as the experts do, of those that these hold `least` levels
    apart over all dimensions together."""
    by: dict[str, list[Scored]] = defaultdict(list)
    for r in rows:
        by[r.reference].append(r)
    groups: dict[str, list[float]] = defaultdict(list)
    for some in by.values():
        scored = [(r.group, truth, r.judgement.merit) for r in some if (truth := overall(r.levels)) is not None]
        for (group, ta, ja), (_, tb, jb) in combinations(scored, 2):
            if abs(ta - tb) >= least:
                groups[group].append(0.5 if ja == jb else float((ja > jb) == (ta > tb)))
    n = sum(map(len, groups.values()))
    return _estimate(groups, lambda some: fmean([v for part in some for v in part]) if any(some) else None, n)


def slices(rows: Sequence[Scored], tag: str) -> list[dict[str, Any]]:
    """Kappa over all dimensions and mean error by a tag's values, the largest first."""
    by: dict[str, list[Scored]] = defaultdict(list)
    for r in rows:
        by[r.tags.get(tag, "")].append(r)
    out = []
    for value, some in sorted(by.items(), key=lambda entry: (-len(entry[1]), entry[0])):
        pairs = [(level, r.judgement.level(k)) for r in some for k in DIMENSIONS if (level := r.levels.get(k)) is not None]
        matrix = [[0] * 5 for _ in range(5)]
        for a, b in pairs:
            matrix[a - 1][b - 1] += 1
        said = fmean(r.judgement.mean(k) for r in some for k in DIMENSIONS)
        out.append({
            "value": value or "not known", "n": len(some), "qwk": qwk(matrix),
            "mae": fmean([abs(a - b) for a, b in pairs]) if pairs else None,
            "bias": fmean([b - a for a, b in pairs]) if pairs else None, "said": said,
        })  # fmt: skip
    return out


def figures(rows: Sequence[Scored]) -> dict[str, Any]:
    """All of it, as JSON."""
    return {
        "n": len(rows),
        "groups": len({r.group for r in rows}),
        "double": sum(len(r.raters) >= 2 for r in rows),
        "dimensions": {key: dimension(rows, key) for key in DIMENSIONS},
        "hack": hacks(rows),
        "pairwise": pairwise(rows),
        "by": {tag: slices(rows, tag) for tag in ("engineer", "target", "month")},
    }
