"""How often somebody may do something: counted in the cache for all web processes together, refused with 429, a sentence and
Retry-After.

An address has a limit by its row in the permission table (`Route(…, limit="upload")`); the gate counts. Sign-in has those of
django-allauth, by address and by account, which is also what locks out who guesses passwords.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from allauth.core.internal.httpkit import get_client_ip
from django.conf import settings
from django.core.cache import cache
from django.http import HttpRequest


@dataclass(frozen=True)
class Limit:
    """At most `most` in `seconds`, by one person, token or address. `what`: completes “You may … ”."""

    most: int
    seconds: int
    what: str


class TooMany(Exception):
    """More than the limit. The message is for the person; `retry_s`: when it is taken again."""

    def __init__(self, limit: Limit, retry_s: int) -> None:
        super().__init__(
            f"You may {limit.what} {limit.most} times in {_span(limit.seconds)}, and have. Nothing was done."
            f" Try again in {_span(retry_s)}."
        )
        self.retry_s = retry_s


class Held(Counter[int]):
    """How many of something each person has open in this process, by the person's key; who has none is not kept."""

    @contextmanager
    def one(self, person: int) -> Iterator[None]:
        """One more while it lasts."""
        self[person] += 1
        try:
            yield
        finally:
            self[person] -= 1
            if not self[person]:
                del self[person]


def limits() -> dict[str, Limit]:
    """By name. What a person at work never meets, and a program that goes round does."""
    return {
        "write": Limit(settings.WRITES_PER_MINUTE, 60, "send forms"),
        "upload": Limit(settings.UPLOAD_FORMS_PER_MINUTE, 60, "upload"),
        "link": Limit(settings.LINKS_PER_MINUTE, 60, "open shared links"),
        "api": Limit(settings.API_PER_MINUTE, 60, "ask the API with one token"),
        "invite": Limit(100, 3600, "invite people"),  # mail to strangers goes out in this site's name
        "export": Limit(10, 3600, "export everything about yourself"),
    }


def count(name: str, request: HttpRequest) -> None:
    """Count one request against a limit. TooMany when it is above it."""
    limit = limits()[name]
    now = time.time()
    window = int(now // limit.seconds)
    key = f"limit:{name}:{window}:{who(request, by_token=name == 'api')}"
    cache.add(key, 0, limit.seconds + 1)
    try:
        counted = cache.incr(key)
    except ValueError:  # it ended between the two
        return
    if counted > limit.most:
        raise TooMany(limit, max(1, round((window + 1) * limit.seconds - now)))


def who(request: HttpRequest, by_token: bool = False) -> str:
    """The person, else the address that a request comes from; with `by_token`, once it is known to be a good one, the token.
    No secret among the keys, and nothing that a stranger may choose anew each time."""
    if request.user.is_authenticated:
        return f"user-{request.user.pk}"
    said = (request.headers.get("Authorization") if by_token else "") or get_client_ip(request) or "nowhere"
    return hashlib.sha256(said.encode()).hexdigest()[:32]


def _span(seconds: int) -> str:
    if seconds % 3600 == 0:
        return "an hour" if seconds == 3600 else f"{seconds // 3600} hours"
    return "a minute" if seconds == 60 else f"{seconds} s"
