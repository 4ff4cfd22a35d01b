"""How reviewers do against the gold items, how much they do, and whether that drifts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from django.db.models import Q

from stitchweb.review.access import strange_to
from stitchweb.review.models import Assignment, Gold, Held, Item, Project, Review, Reviewer

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
    """All shares of one reviewer, oldest first. Four queries."""
    part = Reviewer.objects.filter(project=project, number=number).first()
    rows = _answered(project, {part.user_id: number} if part else {})
    return [p.share for given, some in rows if given == number for p in some]


def gate(reviewer: Reviewer) -> str:
    """Why this reviewer gets no ordinary items; empty when they do. Asked when no gold item is left for them.

    A gold item that they skipped, or whose answer they read before they scored it, has no points: passing it over is no way
    round the mark. Those of runs that they own or steered do not count.
    """
    project = reviewer.project
    if not project.pass_mark or reviewer.cleared:
        return ""
    gold = Item.objects.filter(project=project, answer__isnull=False)
    if not gold.exists():
        return ""
    points = points_of(project, reviewer.number)
    scored = Review.objects.filter(user=reviewer.user_id, item__answer__isnull=False).values("item__sha256")
    missing = strange_to(reviewer.user).filter(pk__in=gold.values("pk")).exclude(sha256__in=scored).select_related("answer")
    passed_over = list(missing)
    points += [0.0 for item in passed_over for _ in range(len(item.answer.answers) + 1)]
    if not points or 100 * sum(points) / len(points) >= project.pass_mark:
        return ""
    without = f", {len(passed_over)} of them without any because you did not score them," if passed_over else ""
    return (
        f"Your gold items{without} have {round(100 * sum(points) / len(points))} % of their points and this project asks for"
        f" {project.pass_mark} %. Read their answers under “Scored by you”; who manages the project can let you go on."
    )


def _answered(project: Project, people: Mapping[int, int]) -> list[tuple[int, list[Point]]]:
    """Number and points of each review of a gold item of the project, oldest first. `people`: user → number; what they scored
    of the same contents in other projects counts here, because these items do not come to them again."""
    same = Item.objects.filter(project=project, answer__isnull=False).values("sha256")
    rows = (
        Review.objects.filter(Q(item__project=project) | Q(user__in=people.keys()))
        .filter(item__answer__isnull=False, item__sha256__in=same)
        .select_related("item__answer")
        .prefetch_related("ratings")
        .order_by("submitted_at", "pk")
    )
    return [(r.number if r.item.project_id == project.pk else people[r.user_id or 0], points(r.item.answer, r)) for r in rows]


def raters(project: Project) -> list[Rater]:
    """Everybody who scores or has scored, by number; a gold item that they skipped has no points. Seven queries."""
    parts = {r.number: r for r in Reviewer.objects.filter(project=project)}
    by_number: dict[int, list[Point]] = {}
    numbers = {r.user_id: r.number for r in parts.values()}
    for number, some in _answered(project, numbers):
        by_number.setdefault(number, []).extend(some)
    skipped = Assignment.objects.filter(item__project=project, item__answer__isnull=False, state=Held.SKIPPED, user__in=numbers)
    for row in skipped.select_related("item__answer"):
        none = [Point(0.0, None)] * (len(row.item.answer.answers) + 1)
        by_number.setdefault(numbers[row.user_id or 0], []).extend(none)
    labels: dict[int, list[tuple[float, object]]] = {}
    for number, active, at in Review.objects.filter(item__project=project).values_list("number", "active_s", "submitted_at"):
        labels.setdefault(number, []).append((active, at.date()))
    items = Item.objects.filter(project=project).count()
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
