"""Share links: made, opened, revoked."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import timedelta

from django.contrib.auth.hashers import make_password
from django.db import transaction
from django.db.models import F
from django.utils import timezone
from django.utils.crypto import salted_hmac

from stitchweb.sharing import signals
from stitchweb.sharing.access import digest_of, link_to_change, publication_for
from stitchweb.sharing.models import ShareLink, WrongPassword
from stitchweb.sharing.permissions import SHARE
from stitchweb.teams.models import User

LIVES = {"day": 1, "week": 7, "month": 30, "year": 365}  # days; "" for without end
MIN_PASSWORD = 8
WINDOW = timedelta(minutes=15)
WRONG_PER_ADDRESS = 5  # within WINDOW
WRONG_IN_ALL = 50  # of one link within WINDOW, from wherever
MAX_LINKS = 50  # open ones of one publication


class LinkRefused(Exception):
    """The link cannot be made or opened so. The message says why and what to do."""


class TooManyTries(LinkRefused):
    """Too many wrong passwords; the message says when to try again."""


@dataclass(frozen=True)
class LinkWish:
    """What a link is to show, to whom and for how long. `life`: a key of LIVES, or "" for without end."""

    notes: bool = False
    numbers: bool = True
    code: bool = False
    profile: bool = False
    life: str = "month"
    password: str = ""
    label: str = ""


@transaction.atomic
def make_link(user: User, pk: int, wish: LinkWish) -> tuple[ShareLink, str]:
    """(the link, its token), which is kept nowhere: who loses it makes another. LinkRefused, Http404, PermissionDenied."""
    publication = publication_for(user, pk, SHARE)
    if publication.withdrawn_at:
        raise LinkRefused("This version was withdrawn. Share one that stands.")
    if not (wish.notes or wish.numbers or wish.code or wish.profile):
        raise LinkRefused("The link would show nothing. Choose numbers, code, notes or the profile.")
    if wish.life not in ("", *LIVES):
        raise LinkRefused("Choose how long the link lives from the list.")
    if wish.password and len(wish.password) < MIN_PASSWORD:
        raise LinkRefused(f"The password has {len(wish.password)} characters: use at least {MIN_PASSWORD}, or none.")
    if publication.links.open().count() >= MAX_LINKS:
        raise LinkRefused(f"This version has {MAX_LINKS} open links. Revoke one that is not needed any more.")
    token = secrets.token_urlsafe(24)
    link = ShareLink.objects.create(
        publication=publication, token_sha256=digest_of(token), hint=token[:4], label=wish.label.strip()[:80],
        shows_notes=wish.notes, shows_numbers=wish.numbers, shows_code=wish.code, shows_profile=wish.profile,
        password=make_password(wish.password) if wish.password else "", created_by=user,
        expires_at=timezone.now() + timedelta(days=LIVES[wish.life]) if wish.life else None,
    )  # fmt: skip
    place = f"{publication.get_absolute_url()}shares/"
    signals.tell(signals.shared, ShareLink, link=link, by=user, publication=publication, place=place)
    return link, token


@transaction.atomic
def revoke(user: User, pk: int, link_pk: int) -> ShareLink:
    """End a link for good, at once. Nothing happens to one that has ended."""
    link = link_to_change(user, publication_for(user, pk), link_pk)
    if link.revoked_at is None:
        link.revoked_at, link.revoked_by = timezone.now(), user
        link.save(update_fields=["revoked_at", "revoked_by"])
    return link


def count_view(link: ShareLink) -> None:
    """One more opened page. One query."""
    ShareLink.objects.filter(pk=link.pk).update(views=F("views") + 1, viewed_at=timezone.now())


def try_password(link: ShareLink, password: str, address: str) -> None:
    """Return if the password opens the link. LinkRefused if not, TooManyTries without looking at it after too many wrong ones.

    Counted per address and, more widely, per link; addresses are kept as keyed digests and forgotten with the window.
    """
    who = salted_hmac("stitchweb.sharing.wrong", address).hexdigest()
    WrongPassword.objects.filter(at__lt=timezone.now() - WINDOW).delete()
    # Noted before it is counted, counted before it is looked at: many at once get no more tries than one after the other.
    row = WrongPassword.objects.create(link=link, who=who)
    if link.wrong.filter(who=who).count() > WRONG_PER_ADDRESS or link.wrong.count() > WRONG_IN_ALL:
        row.delete()
        raise TooManyTries(
            f"Too many wrong passwords. Try again in {WINDOW.seconds // 60} minutes, or ask who gave you the link."
        )
    if not link.opens_with(password):
        raise LinkRefused("That is not the password of this link. Ask whoever gave it to you.")
    row.delete()


def unlocked_word(link: ShareLink) -> str:
    """What a session keeps of an opened link; another password makes it void."""
    return salted_hmac("stitchweb.sharing.open", f"{link.pk}:{link.password}").hexdigest()[:32]
