"""Tokens: made, found by what a request brings, revoked."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection
from datetime import timedelta

from django.db import IntegrityError, transaction
from django.utils import timezone

from stitchweb.api.models import ApiToken, Scope
from stitchweb.teams.models import User

PREFIX = "stw_"  # what scanners of leaked secrets find a token by
LIVES = (7, 30, 90, 365)  # days
MOST = 50  # of one person
_LONGEST = 200  # characters that are worth a look
_NOTED = timedelta(minutes=1)  # between two notes of the last use


class TokenRefused(Exception):
    """No such token can be made. The message is for the person."""


@transaction.atomic
def make_token(user: User, name: str, scopes: Collection[str], days: int) -> tuple[ApiToken, str]:
    """The row, and the token itself, which is nowhere else from now on. TokenRefused with a sentence."""
    chosen = [scope for scope in Scope.values if scope in scopes]
    if not chosen or set(scopes) - set(chosen):
        raise TokenRefused("Choose at least one thing that the token may be used for.")
    if days not in LIVES:
        raise TokenRefused(f"A token lives {', '.join(map(str, LIVES[:-1]))} or {LIVES[-1]} days.")
    name = name.strip()[:80]
    if not name:
        raise TokenRefused("Give the token a name: it says later what would break without it.")
    if ApiToken.objects.filter(user=user).count() >= MOST:
        raise TokenRefused(f"You have {MOST} tokens. Revoke one that is not used any more.")
    secret = PREFIX + secrets.token_urlsafe(32)
    try:
        with transaction.atomic():
            row = ApiToken.objects.create(
                user=user, name=name, digest=digest(secret), ending=secret[-4:], scopes=chosen,
                expires_at=timezone.now() + timedelta(days=days),
            )  # fmt: skip
    except IntegrityError:
        raise TokenRefused(f"You have a token named {name!r} already. Choose another name, or revoke that one first.") from None
    return row, secret


def find(secret: str) -> ApiToken | None:
    """The token with its person, if it is known, has not expired, and its person may sign in. Notes its use once a minute."""
    if not secret.startswith(PREFIX) or len(secret) > _LONGEST:
        return None
    now = timezone.now()
    row = ApiToken.objects.usable(now).select_related("user").filter(digest=digest(secret)).first()
    if row is not None and (row.last_used_at is None or now - row.last_used_at > _NOTED):
        ApiToken.objects.filter(pk=row.pk).update(last_used_at=now)
    return row


def digest(secret: str) -> str:
    """What is stored. A token is 256 random bits, so no slow hash is needed to keep it from being guessed."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
