"""A request that is sent twice is done once: the second answer is the first one.

The header `Idempotency-Key` names a request of one person to one address. The same key with the same body gets the same answer
for a day; with another body it is refused. What was refused or failed is not kept and may be sent again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import timedelta

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from stitchweb.api.models import Answered
from stitchweb.api.problems import KeyReused, Malformed

HEADER = "Idempotency-Key"
LONGEST = 200
KEPT = timedelta(days=1)


def once(request: HttpRequest, work: Callable[[], HttpResponse]) -> HttpResponse:
    """What `work` answers, or what it answered to the same key. One transaction; a repetition meanwhile waits for it.

    Malformed for a key that is none, KeyReused when it came with another body. Without the header nothing is kept.
    """
    word = request.headers.get(HEADER)
    if word is None:
        return work()
    if not (0 < len(word) <= LONGEST and all("!" <= char <= "~" for char in word)):
        raise Malformed(f"{HEADER} is 1 to {LONGEST} characters of ASCII without spaces, such as a UUID.")
    content = hashlib.sha256(request.body).hexdigest()
    with transaction.atomic():
        key = hashlib.sha256(f"{request.method} {request.path} {word}".encode("utf-8", "surrogatepass")).hexdigest()
        row, first = Answered.objects.get_or_create(user=request.user, key=key, defaults={"content": content})
        if not first and row.created_at < timezone.now() - KEPT:
            row.content, row.created_at, first = content, timezone.now(), True
        if not first:
            if row.content != content:
                raise KeyReused(
                    f"This {HEADER} came with another request before. Use a new one, or repeat that request as it was."
                )
            return _again(row)
        answer = work()
        row.status, row.body = answer.status_code, answer.content.decode()
        row.place = answer.headers.get("Location", "")[:300]
        row.save()
    return answer


def _again(row: Answered) -> HttpResponse:
    headers = {"Idempotency-Replayed": "true"} | ({"Location": row.place} if row.place else {})
    return HttpResponse(row.body, status=row.status, content_type="application/json; charset=utf-8", headers=headers)


def forget() -> None:
    """Drop what is older than a day."""
    Answered.objects.filter(created_at__lt=timezone.now() - KEPT).delete()
