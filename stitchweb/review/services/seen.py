"""Whose labels were shown to whom: who has read labels of an item gives none of their own any more."""

from __future__ import annotations

from collections.abc import Iterable

from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from stitchweb.review.models import Assignment, Gold, Held, Item, Project, Review, Seen
from stitchweb.teams.models import User


@transaction.atomic
def note_items(user: User, project: Project, items: Iterable[Item]) -> None:
    """The labels of these items of the project stand on a page that this person gets. Written once; four queries after that."""
    keys = {item.pk for item in items}
    told = set(Review.objects.filter(item__in=keys).exclude(user=user).values_list("item", flat=True))
    told |= set(Gold.objects.filter(item__in=keys).values_list("item", flat=True))  # the answer stands there too
    told -= set(Seen.objects.filter(user=user, item__in=keys).values_list("item", flat=True))
    told -= set(Assignment.objects.filter(user=user, item__in=told, state=Held.SUBMITTED).values_list("item", flat=True))
    Seen.objects.bulk_create((Seen(project=project, item_id=pk, user=user) for pk in sorted(told)), ignore_conflicts=True)


@transaction.atomic
def note_all(user: User, project: Project) -> None:
    """All labels of the project are in what this person gets. Written when labels came in since the last time."""
    newest = Review.objects.filter(item__project=project).aggregate(at=Max("submitted_at"))["at"]
    row = Seen.objects.filter(user=user, project=project, item=None).first()
    if newest is None or (row and row.at >= newest):
        return
    if row is None:
        Seen.objects.bulk_create([Seen(project=project, user=user, at=timezone.now())], ignore_conflicts=True)
    Seen.objects.filter(user=user, project=project, item=None).update(at=timezone.now())
