"""The queue: whose turn an item is. Exactly as many labels as are wanted, no item twice to one person, nothing stuck.

A label is a slot of its item. Whoever takes or frees one holds the item's row; on SQLite every transaction holds the whole
database. Two constraints stand behind the code: a slot is taken once, and nobody has an item twice.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from stitchweb.review.access import parts_of, to_go_on, to_score
from stitchweb.review.calibration import gate
from stitchweb.review.models import Assignment, AssignmentQuerySet, Held, Item, Project, ProjectState
from stitchweb.review.services.audit import named, record
from stitchweb.teams.models import User

SKIP_REASONS = {
    "not-my-field": "It is outside of what I can judge",
    "know-author": "I know who or what wrote it",
    "cannot-read": "Something is missing or cannot be read",
    "too-long": "It would take too long now",
    "other": "Another reason",
}


AHEAD = timedelta(minutes=2)  # how long an item is held for a person who has not come for it yet


class QueueRefused(Exception):
    """There is nothing to be had like that. The message is for the person."""


def next_assignment(user: User, project: Project, *, ahead: bool = False) -> Assignment | None:
    """The item that this person scores now: the one they hold, one whose time ran out and that has room, or a new one.

    `ahead`: it is only made ready, so it is reserved for `AHEAD` alone; a call without makes that a whole reservation.
    None when the queue holds nothing for them. QueueRefused when they do not score here, or the project is not open.
    """
    release_overdue(project)
    return _take(user, project, ahead)


@transaction.atomic
def release_overdue(project: Project) -> int:
    """Free what reservations hold whose time is up. Their drafts stay. Returns how many came free."""
    return release(Assignment.objects.overdue(timezone.now()).filter(item__project=project))


def release(reserved: AssignmentQuerySet) -> int:
    """Free what these reservations hold, those left out whose person is saving at this moment. In a transaction."""
    rows = list(reserved.select_for_update(skip_locked=True, of=("self",)).order_by("item_id"))
    for row in rows:
        _let_go(row, Held.EXPIRED)
    return len(rows)


@transaction.atomic
def skip(user: User, assignment_pk: int, reason: str, note: str = "") -> None:
    """Give the item back for others; this person will not see it again. QueueRefused without a reason, or once it is scored."""
    if reason not in SKIP_REASONS:
        raise QueueRefused("Say why you skip it: pick one of the reasons.")
    row = locked(user, assignment_pk)
    if row.state == Held.SUBMITTED:
        raise QueueRefused("This item is scored already: there is nothing to skip.")
    row.skip_reason, row.skip_note = reason, note.replace("\x00", "")[:400]
    _let_go(row, Held.SKIPPED)
    record(user, row.item.project_id, "skip", named(row.item), new={"reason": reason, "note": row.skip_note})


def locked(user: User, assignment_pk: int) -> Assignment:
    """The person's own assignment, its row locked to the end of the transaction. QueueRefused when it is not theirs."""
    found = Assignment.objects.select_for_update(of=("self",)).filter(pk=assignment_pk, user=user).first()
    if found is None:
        raise QueueRefused("This item is not in your queue.")
    return found


def hold(row: Assignment, now: datetime, *, ahead: bool = False) -> None:
    """Renew a reservation; take a slot again for one that ran out. Call it with the row locked. `ahead`: as `next_assignment`.

    QueueRefused when all labels of the item are spoken for, or the person has given it back.
    """
    if row.state == Held.SKIPPED:
        raise QueueRefused("You skipped this item, so it went to others.")
    if row.state == Held.EXPIRED:
        item = Item.objects.select_for_update().get(pk=row.item_id)
        if item.taken >= item.wanted:
            raise QueueRefused("Your reservation ran out, and others have scored this item since. Your draft is kept.")
        row.slot, row.state = _free_slot(item), Held.RESERVED
        row.ended_at = None
        Item.objects.filter(pk=item.pk).update(taken=F("taken") + 1)
    minutes = Project.objects.filter(items=row.item_id).values_list("reservation_minutes", flat=True).get()
    row.expires_at = now + (AHEAD if ahead else timedelta(minutes=minutes))
    row.save(update_fields=["slot", "state", "ended_at", "expires_at"])


@transaction.atomic
def _take(user: User, project: Project, ahead: bool) -> Assignment | None:
    # One person on two devices, or in two projects, waits here for themselves and then finds what the first one took.
    User.objects.select_for_update(of=("self",), no_key=True).get(pk=user.pk)
    part = parts_of(user).select_for_update(of=("self",)).select_related("project").filter(project=project).first()
    if part is None:
        raise QueueRefused("You do not score in this project. Ask its owner to add you.")
    mine = Assignment.objects.filter(user=user, item__project=project, state=Held.RESERVED).order_by("pk")
    held = mine.select_for_update(of=("self",)).first()
    if held:
        if not ahead:
            hold(held, timezone.now())
        return held
    if Project.objects.filter(pk=project.pk).exclude(state=ProjectState.OPEN).exists():
        raise QueueRefused("The project is not open at the moment, so nothing new is handed out.")
    left = to_go_on(user).filter(item__project=project).select_related("item").first()
    item = None if left and left.item.gold else _pick(user, project)
    if item and item.gold:
        left = None  # gold comes before what ran out
    of = left.item if left else item
    if of and not of.gold and (why := gate(part)):
        raise QueueRefused(why)
    if left:
        hold(left, timezone.now(), ahead=ahead)
        return left
    return _reserve(user, project, of, ahead) if of else None


def _pick(user: User, project: Project) -> Item | None:
    """The first open item, its row locked. Rows that others hold are passed over first and waited for only at the end."""
    items = to_score(user).filter(project=project)
    for patient in (False, True, True):
        item = items.select_for_update(skip_locked=not patient, of=("self",)).first()
        if item is not None:
            return item
        if not items.exists():
            return None
    return None


def _reserve(user: User, project: Project, item: Item, ahead: bool) -> Assignment:
    now = timezone.now()
    expires = now + (AHEAD if ahead else timedelta(minutes=project.reservation_minutes))
    row = Assignment.objects.create(
        item=item, user=user, slot=_free_slot(item), reserved_at=now, expires_at=expires, seen_at=now
    )
    Item.objects.filter(pk=item.pk).update(taken=F("taken") + 1)
    return row


def _free_slot(item: Item) -> int:
    used = set(Assignment.objects.filter(item=item, slot__isnull=False).values_list("slot", flat=True))
    return next(slot for slot in range(item.wanted + len(used)) if slot not in used)


def _let_go(row: Assignment, state: Held) -> None:
    if row.slot is not None:
        Item.objects.filter(pk=row.item_id).update(taken=F("taken") - 1)
    row.slot, row.state, row.ended_at = None, state, timezone.now()
    row.save(update_fields=["slot", "state", "ended_at", "skip_reason", "skip_note"])
