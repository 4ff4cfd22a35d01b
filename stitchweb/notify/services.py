"""Telling people and teams, and what they choose. What is told is stored, and with it what has to be sent."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import Value
from django.db.models.functions import Concat, Substr
from django.utils import timezone

from stitchweb.core.mail import mail_works
from stitchweb.notify.kinds import KINDS, WAYS, Kind
from stitchweb.notify.models import Choice, Delivery, Hook, Notification
from stitchweb.runs import dispatch
from stitchweb.teams.models import Team, User

DELIVER = "stitchweb.deliver"
KEPT = timedelta(days=90)


@transaction.atomic
def tell(kind: Kind, people: Iterable[User], sentence: str, place: str, about: str, team: Team | None) -> int:
    """Tell each person once of `about`, on the ways that they chose; returns how many were told. Four queries.

    `place`: a path of this site. Whoever may not sign in is told nothing.
    """
    whom = {user.pk: user for user in people if user.is_active}
    if not whom:
        return 0
    chosen = {(c.user_id, c.way): c.wanted for c in Choice.objects.filter(user__in=whom, kind=kind.name)}
    known = set(Notification.objects.filter(user__in=whom, kind=kind.name, about=about).values_list("user", flat=True))
    rows, mails = [], []
    for pk in sorted(whom.keys() - known):
        page, mail = chosen.get((pk, "page"), kind.page), chosen.get((pk, "mail"), kind.mail) and mail_works()
        if page or mail:
            rows.append(
                Notification(
                    user_id=pk, team=team, kind=kind.name, sentence=sentence[:400], place=place[:200], about=about, shown=page
                )
            )
            mails.append(mail)
    made = Notification.objects.bulk_create(rows)
    letters = [Delivery(notification=row, kind=kind.name, about=about) for row, mail in zip(made, mails, strict=True) if mail]
    _hand_over(letters)
    return len(made)


@transaction.atomic
def tell_hooks(kind: Kind, team: Team, about: str, data: Mapping[str, Any]) -> int:
    """Send `data` to the team's hooks that want this kind; returns to how many. Two queries."""
    hooks = [hook for hook in Hook.objects.filter(team=team, stopped="") if kind.name in hook.kinds]
    return len(_hand_over([message(hook, kind.name, about, data) for hook in hooks]))


def message(hook: Hook, kind: str, about: str, data: Mapping[str, Any]) -> Delivery:
    """A delivery with its body, not stored yet."""
    at = timezone.now().isoformat(timespec="seconds")
    body = json.dumps({"type": kind, "timestamp": at, "data": {"team": hook.team.slug, **data}}, ensure_ascii=False)
    return Delivery(hook=hook, kind=kind, about=about, body=body)


def hand_over(delivery: Delivery) -> Delivery:
    """Store one delivery and have it sent."""
    with transaction.atomic():
        return _hand_over([delivery])[0]


def _hand_over(deliveries: list[Delivery]) -> list[Delivery]:
    made = Delivery.objects.bulk_create(deliveries)
    for row in made:
        dispatch.send_on_commit(DELIVER, dispatch.AGENTS_QUEUE, delivery_id=row.pk)
    return made


def ways_of(user: User) -> dict[str, dict[str, bool]]:
    """Kind to way to whether the person wants it. One query."""
    chosen = {(c.kind, c.way): c.wanted for c in Choice.objects.filter(user=user)}
    return {
        name: {way: chosen.get((name, way), getattr(kind, way)) for way, _ in WAYS} for name, kind in KINDS.items()
    }  # fmt: skip


@transaction.atomic
def choose(user: User, wanted: Collection[tuple[str, str]]) -> None:
    """Exactly these pairs of kind and way from now on."""
    rows = [
        Choice(user=user, kind=name, way=way, wanted=(name, way) in wanted) for name in KINDS for way, _ in WAYS
    ]  # fmt: skip
    Choice.objects.bulk_create(rows, update_conflicts=True, unique_fields=["user", "kind", "way"], update_fields=["wanted"])


def mark_read(rows: Iterable[Notification]) -> None:
    """They are read from now on; those that were stay as they were."""
    Notification.objects.filter(pk__in=[row.pk for row in rows], read_at=None).update(read_at=timezone.now())


def forget_name(user: User) -> None:
    """Take the name of somebody who leaves out of what others were told of their doing."""
    told = Notification.objects.filter(sentence__startswith=f"{user} ")
    told.update(sentence=Concat(Value("Somebody "), Substr("sentence", len(f"{user} ") + 1)))


def forget() -> None:
    """Drop what was told, and what was sent, more than three months ago."""
    Notification.objects.filter(at__lt=timezone.now() - KEPT).delete()
    Delivery.objects.filter(created_at__lt=timezone.now() - KEPT).delete()
