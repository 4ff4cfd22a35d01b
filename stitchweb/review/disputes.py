"""Where labels of one item lie apart, which of them an adjudicator settles, and what has become outdated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.db.models import Exists, F, Max, Min, OuterRef, Q, QuerySet

from stitchweb.review.access import blind_to, to_settle
from stitchweb.review.models import (
    Adjudication,
    Assignment,
    Held,
    Item,
    ItemQuerySet,
    Project,
    ProjectState,
    Rating,
    Review,
)
from stitchweb.runs.history import view_of
from stitchweb.teams.models import User

APART = 2  # levels between the highest and the lowest label, from which on somebody has to settle it
GRAVE = ("major", "unsure")  # hack flags that always need settling


@dataclass(frozen=True)
class Given:
    """One label of an item. `levels`: None for "cannot tell"."""

    number: int
    review: Review
    levels: Mapping[str, int | None]


@dataclass(frozen=True)
class Sheet:
    """An item with all its labels as they were first given, and its final label where there is one."""

    item: Item
    given: list[Given]
    final: Adjudication | None

    @property
    def standing(self) -> list[Given]:
        """The labels that no later rubric version has touched."""
        return [g for g in self.given if not g.review.superseded]

    def levels(self, dimension: str) -> list[int]:
        return [level for g in self.standing if (level := g.levels.get(dimension)) is not None]

    def apart(self, dimension: str) -> int:
        """Levels between the highest and the lowest label; 0 with fewer than two."""
        levels = self.levels(dimension)
        return max(levels) - min(levels) if levels else 0

    @property
    def flags(self) -> list[str]:
        return [g.review.hack_level for g in self.given]

    @property
    def widest(self) -> int:
        keys = {key for g in self.given for key in g.levels}
        return max((self.apart(key) for key in keys), default=0)

    @property
    def disputed(self) -> bool:
        return self.widest >= APART or any(g.review.hack_level in GRAVE for g in self.standing)


def sheets(items: Iterable[Item]) -> list[Sheet]:
    """The items with their labels, in the same order. Three queries."""
    rows = list(items)
    keys = [item.pk for item in rows]
    given: dict[int, list[Given]] = {}
    for review in Review.objects.filter(item__in=keys).select_related("rubric").prefetch_related("ratings"):
        levels = {r.dimension: r.level for r in review.ratings.all()}
        given.setdefault(review.item_id, []).append(Given(review.number, review, levels))
    final: dict[int, Adjudication] = {}
    for row in Adjudication.objects.filter(item__in=keys).select_related("rubric").order_by("pk"):
        final[row.item_id] = row  # the newest counts
    for labels in given.values():
        labels.sort(key=lambda g: g.number)
    return [Sheet(item, given.get(item.pk, []), final.get(item.pk)) for item in rows]


def disputed(project: Project) -> ItemQuerySet:
    """Items whose labels lie `APART` in a dimension, or whose hack flag is grave for somebody; none whose answer is known."""
    wide = (
        Rating.objects.filter(review__item__project=project, review__superseded=False)
        .order_by()
        .values("review__item", "dimension")
        .annotate(gap=Max("level") - Min("level"))
        .filter(gap__gte=APART)
    )
    grave = Review.objects.filter(item=OuterRef("pk"), superseded=False, hack_level__in=GRAVE)
    return Item.objects.filter(project=project, answer=None).filter(Q(pk__in=wide.values("review__item")) | Q(Exists(grave)))


def open_disputes(project: Project) -> ItemQuerySet:
    """Disputed items whose labels are all in, and that have no final label which still holds.

    In a closed project no label is waited for.
    """
    settled = Adjudication.objects.filter(item=OuterRef("pk"), superseded=False)
    rows = disputed(project).filter(~Exists(settled))
    if project.state == ProjectState.CLOSED:
        return rows
    held = Assignment.objects.filter(item=OuterRef("pk"), state=Held.RESERVED)
    return rows.filter(~Exists(held), taken__gte=F("wanted"))


def disputes_for(user: User, project: Project) -> ItemQuerySet:
    """Open disputes that this person may settle, in the order of the queue."""
    free = to_settle(user).exclude(sha256__in=blind_to(user).values("sha256"))
    return open_disputes(project).filter(pk__in=free.values("pk")).order_by("rank")


def readable_for(user: User, project: Project, *, all_of_them: bool) -> QuerySet[Item]:
    """Items with labels whose labels the person may read: all but what they may still score, or what they scored themselves."""
    rows = Item.objects.filter(project=project, reviews__isnull=False)
    if not all_of_them:
        rows = rows.filter(assignments__user=user, assignments__state=Held.SUBMITTED)
    return rows.exclude(sha256__in=blind_to(user).values("sha256")).distinct()


def verdicts_now(items: Iterable[Item]) -> dict[int, str]:
    """The Verifier's word on each item's candidate as it stands. Two or three queries per run."""
    words: dict[int, str] = {}
    by_run: dict[int, list[Item]] = {}
    for item in items:
        by_run.setdefault(item.run_id, []).append(item)
    for run, rows in by_run.items():
        candidates = view_of(run).candidates
        for item in rows:
            found = candidates.get(item.candidate)
            words[item.pk] = (found.verdict or "") if found else ""
    return words


def outdated(label: Review | Adjudication, project: Project, verdict: str, *, tell: bool = True) -> list[str]:
    """Why a label may not hold any more, a sentence each. `verdict`: the candidate's now; empty when it is not stored.

    `tell`: whether the reader may know which verdicts they were.
    """
    found = []
    if label.superseded:
        found.append(f"Given under rubric {label.rubric}; {project.rubric} changed what it rests on.")
    if label.verdict and verdict and label.verdict != verdict:
        told = f"The verdict was {label.verdict} then and is {verdict} now."
        found.append(told if tell else "The verdict is another one now than it was then.")
    return found
