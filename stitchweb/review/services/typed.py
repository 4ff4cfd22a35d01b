"""What is typed of a revision or a final label, kept on the site before it is sent. No row is overwritten."""

from __future__ import annotations

from typing import Literal

from django.db import transaction

from stitchweb.review.access import item_to_settle
from stitchweb.review.label import GivenLabel
from stitchweb.review.models import Adjudication, Held, Item, Revised, Typed
from stitchweb.review.services.queue import QueueRefused, locked
from stitchweb.teams.models import User

Act = Literal["revise", "settle"]
MOST = 1000  # of one form of one person: a bound for a script that runs wild


@transaction.atomic
def keep_revision(user: User, assignment_pk: int, label: GivenLabel) -> None:
    """QueueRefused before the submission, and after the one revision."""
    row = locked(user, assignment_pk)
    if row.state != Held.SUBMITTED:
        raise QueueRefused("A revision can be written once the review is submitted.")
    if Revised.objects.filter(review=row.review).exists():
        raise QueueRefused("You revised this label before, and that stands. What you type here is kept nowhere.")
    _keep(user, row.item, "revise", label)


@transaction.atomic
def keep_final(user: User, project_pk: int, item_pk: int, label: GivenLabel, *, after: int | None) -> None:
    """`after`: the newest final label that the page showed, None when there was none. As `access.item_to_settle` refuses;
    QueueRefused for a page that a final label has overtaken, the writer's own above all."""
    item = item_to_settle(user, project_pk, item_pk)
    newest = Adjudication.objects.filter(item=item).first()
    if newest and newest.pk != after:
        raise QueueRefused("This item was settled while you wrote. What you type is kept in this browser until you send it.")
    _keep(user, item, "settle", label)


def _keep(user: User, item: Item, act: Act, label: GivenLabel) -> None:
    whole = label.model_dump(mode="json")
    mine = Typed.objects.filter(user=user, item=item, act=act)
    newest = mine.first()
    if newest and newest.content == whole:
        return
    if mine.count() >= MOST:
        raise QueueRefused(f"This form has been saved {MOST} times, so it is saved no more. Send it.")
    Typed.objects.create(user=user, item=item, act=act, content=whole)


def typed(user: User, item: Item, act: Act) -> GivenLabel | None:
    """What the person had typed last; None when nothing waits to be sent."""
    row = Typed.objects.filter(user=user, item=item, act=act).first()
    return GivenLabel.model_validate(row.content) if row else None


def sent(user: User, item_pk: int, act: Act) -> None:
    """The label is kept now: its drafts go. Called inside the transaction that keeps it."""
    Typed.objects.filter(user=user, item=item_pk, act=act).delete()
