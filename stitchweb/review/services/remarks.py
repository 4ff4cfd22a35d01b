"""The discussion of an item, after the reveal."""

from __future__ import annotations

from django.db import transaction

from stitchweb.review.access import item_with_labels
from stitchweb.review.models import Assignment, Held, Remark
from stitchweb.review.services.audit import named, record
from stitchweb.review.services.queue import QueueRefused
from stitchweb.teams.models import User

MAX_TEXT = 4000


@transaction.atomic
def remark_of_reviewer(user: User, row: Assignment, text: str) -> Remark:
    """A reviewer's word on an item that they have scored. QueueRefused before that, and for an empty text."""
    if row.state != Held.SUBMITTED:
        raise QueueRefused("The discussion opens when you have submitted your scores.")
    return _added(user, row.item_id, row.review.number, text)


@transaction.atomic
def remark_of_reader(user: User, project_pk: int, item_pk: int, text: str) -> Remark:
    """A word of an adjudicator or manager, without a number. As `access.item_with_labels` refuses."""
    return _added(user, item_with_labels(user, project_pk, item_pk).pk, None, text)


def _added(user: User, item_pk: int, number: int | None, text: str) -> Remark:
    said = text.replace("\x00", "").strip()[:MAX_TEXT]
    if not said:
        raise QueueRefused("Write something first.")
    made = Remark.objects.create(item_id=item_pk, user=user, number=number, text=said)
    record(user, made.item.project_id, "remark", named(made.item), new={"text": said})
    return made
