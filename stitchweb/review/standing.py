"""Where a project stands: agreement per dimension and pair, labels per person."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from stitchweb.review.agreement import Estimate, estimate, kappa
from stitchweb.review.disputes import disputed
from stitchweb.review.models import Item, Project, Rating, Review
from stitchweb.review.rubric import LEVELS

Scores = dict[int, dict[int, int]]  # item → reviewer's number → level
MAX_PAIRS = 15


@dataclass(frozen=True)
class Agreement:
    """One dimension. `counts`: labels per level; `untold`: "cannot tell"; `pairs`: two numbers with their kappa."""

    name: str
    alpha: Estimate
    pairs: list[tuple[str, Estimate]]
    counts: list[int]
    untold: int


def standing(project: Project) -> dict[str, Any]:
    """For `review/agreement.html`. Four queries; seconds of arithmetic at ten thousand items."""
    # Without gold items: their answers were known to somebody beforehand.
    rows = Rating.objects.filter(
        review__item__project=project, review__item__answer=None, review__superseded=False
    ).values_list("dimension", "level", "review__item", "review__number")
    told: dict[str, Scores] = defaultdict(lambda: defaultdict(dict))
    untold: Counter[str] = Counter()
    for dimension, level, item, number in rows:
        if level is None:
            untold[dimension] += 1
        else:
            told[dimension][item][number] = level
    labels = Counter(Review.objects.filter(item__project=project).values_list("number", flat=True))
    return {
        "dimensions": [_agreement(d.name, told[d.key], untold[d.key]) for d in project.rubric.parsed.dimensions],
        "labels": sorted(labels.items()),
        "labels_n": labels.total(),
        "items": Item.objects.filter(project=project).count(),
        "disputed": disputed(project).count(),
        "settled": disputed(project).filter(adjudications__isnull=False).distinct().count(),
        "levels": LEVELS,
    }


def _agreement(name: str, scores: Scores, untold: int) -> Agreement:
    units = [list(levels.values()) for levels in scores.values()]
    counts = Counter(level for unit in units for level in unit)
    return Agreement(name, estimate(units), _pairs(scores), [counts[level] for level in LEVELS], untold)


def _pairs(scores: Scores) -> list[tuple[str, Estimate]]:
    common: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for levels in scores.values():
        for a, b in combinations(sorted(levels), 2):
            common[a, b].append((levels[a], levels[b]))
    most = sorted(common.items(), key=lambda entry: (-len(entry[1]), entry[0]))[:MAX_PAIRS]
    return [(f"{a} and {b}", estimate(pairs, _kappa)) for (a, b), pairs in most]


def _kappa(pairs: Sequence[Any]) -> float | None:
    return kappa([(a, b) for a, b in pairs])
