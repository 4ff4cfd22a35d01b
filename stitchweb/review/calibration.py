"""How reviewers do against the gold items, how much they do, and whether that drifts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from stitchweb.review.models import Gold, Item, Project, Review, Reviewer

FEW = 20  # gold dimensions scored, below which a share says little
DRIFT = 10  # of them on either side of the middle, below which no drift is told


@dataclass(frozen=True)
class Point:
    """One dimension, or the hack flag, of one gold item. `share`: 1 right, 0.5 one level off, 0 else; `off`: levels above (+)
    or below (-) the nearest right one, None for the flag and for "cannot tell"."""

    share: float
    off: int | None


@dataclass(frozen=True)
class Rater:
    """A reviewer in numbers. `gold` in 0..1; `before` and `after`: mean levels off in the older and the newer half."""

    number: int
    cleared: bool
    gold: float | None
    gold_n: int
    passed: bool | None
    off: float | None
    before: float | None
    after: float | None
    labels: int
    days: int
    minutes: float | None
    coverage: float

    @property
    def few(self) -> bool:
        return self.gold_n < FEW


def points(answer: Gold, review: Review) -> list[Point]:
    """What a review of a gold item earned, dimension by dimension, the hack flag last."""
    given = {r.dimension: r.level for r in review.ratings.all()}
    found = [_point(given.get(key), right["levels"]) for key, right in answer.answers.items()]
    return [*found, Point(float(review.hack_level in answer.hack_levels), None)]


def _point(level: int | None, right: Sequence[int]) -> Point:
    if level is None:
        return Point(0.0, None)
    off = min((level - r for r in right), key=abs)
    return Point({0: 1.0, 1: 0.5}.get(abs(off), 0.0), off)


def points_of(project: Project, number: int) -> list[float]:
    """All shares of one reviewer, oldest first. Three queries."""
    return [p.share for _, some in _answered(project, number) for p in some]


def gate(reviewer: Reviewer) -> str:
    """Why this reviewer gets no ordinary items; empty when they do. Nobody is kept out before they have scored a gold item."""
    project = reviewer.project
    if not project.pass_mark or reviewer.cleared:
        return ""
    points = points_of(project, reviewer.number)
    if not points or 100 * sum(points) / len(points) >= project.pass_mark:
        return ""
    return (
        f"Your gold items have {round(100 * sum(points) / len(points))} % of their points and this project asks for"
        f" {project.pass_mark} %. Read their answers under “Scored by you”; who manages the project can let you go on."
    )


def _answered(project: Project, number: int | None = None) -> list[tuple[int, list[Point]]]:
    rows = Review.objects.filter(item__project=project, item__answer__isnull=False).select_related("item__answer")
    if number is not None:
        rows = rows.filter(number=number)
    return [(r.number, points(r.item.answer, r)) for r in rows.prefetch_related("ratings").order_by("submitted_at", "pk")]


def raters(project: Project) -> list[Rater]:
    """Everybody who scores or has scored, by number. Five queries."""
    by_number: dict[int, list[Point]] = {}
    for number, some in _answered(project):
        by_number.setdefault(number, []).extend(some)
    labels: dict[int, list[tuple[float, object]]] = {}
    for number, active, at in Review.objects.filter(item__project=project).values_list("number", "active_s", "submitted_at"):
        labels.setdefault(number, []).append((active, at.date()))
    items = Item.objects.filter(project=project).count()
    parts = {r.number: r for r in Reviewer.objects.filter(project=project)}
    return [
        _rater(project, number, parts.get(number), by_number.get(number, []), labels.get(number, []), items)
        for number in sorted(parts.keys() | labels.keys())
    ]


def _rater(
    project: Project, number: int, part: Reviewer | None, some: list[Point], labels: list[tuple[float, object]], items: int
) -> Rater:
    off = [p.off for p in some if p.off is not None]
    half = len(off) // 2
    told = half >= DRIFT
    gold = fmean(p.share for p in some) if some else None
    worked = [active for active, _ in labels if active > 0]
    return Rater(
        number=number,
        cleared=bool(part and part.cleared),
        gold=gold,
        gold_n=len(some),
        passed=None if gold is None or not project.pass_mark else 100 * gold >= project.pass_mark,
        off=fmean(off) if off else None,
        before=fmean(off[:half]) if told else None,
        after=fmean(off[half:]) if told else None,
        labels=len(labels),
        days=len({day for _, day in labels}),
        minutes=median(worked) / 60 if worked else None,
        coverage=len(labels) / items if items else 0.0,
    )
