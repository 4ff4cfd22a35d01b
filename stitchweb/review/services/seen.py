"""Whose labels were shown to whom: who has read labels of an item gives none of their own any more."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import Max
from django.utils import timezone

from stitchweb.review.models import Assignment, Gold, Held, Item, Project, Review, Seen
from stitchweb.teams.models import User


def note_items(user: User, project: Project, items: Iterable[Item]) -> None:
    """The labels of these items of the project stand on a page that this person gets. Written once; four queries after that."""
    keys = {item.pk for item in items}
    told = set(Review.objects.filter(item__in=keys).exclude(user=user).values_list("item", flat=True))
    told |= set(Gold.objects.filter(item__in=keys).values_list("item", flat=True))  # the answer stands there too
    told -= set(Seen.objects.filter(user=user, item__in=keys).values_list("item", flat=True))
    told -= set(Assignment.objects.filter(user=user, item__in=told, state=Held.SUBMITTED).values_list("item", flat=True))
    if told:
        Seen.objects.bulk_create((Seen(project=project, item_id=pk, user=user) for pk in sorted(told)), ignore_conflicts=True)


def note_all(user: User, *projects: Project) -> None:
    """All labels of these projects are in what this person gets. Written when labels came in since the last time; two queries
    when none did."""
    reviews = Review.objects.filter(item__project__in=projects).order_by()
    newest = dict(reviews.values_list("item__project").annotate(at=Max("submitted_at")))
    known = Seen.objects.filter(user=user, item=None)
    seen = dict(known.filter(project__in=projects).values_list("project", "at"))
    told = [pk for pk, at in newest.items() if pk not in seen or seen[pk] < at]
    if told:
        Seen.objects.bulk_create((Seen(project_id=pk, user=user) for pk in told if pk not in seen), ignore_conflicts=True)
        known.filter(project__in=told).update(at=timezone.now())
