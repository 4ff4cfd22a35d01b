"""A form that is sent twice is taken once: the second answer leads to where the first one did.

A form carries a word that was drawn when it was shown (`{% once %}`). A double click, a reload of the answer and a browser that
sends again all repeat it, with the same content.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable
from datetime import timedelta

from django.contrib import messages
from django.core.files.uploadedfile import UploadedFile
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect
from django.utils import timezone

from stitchweb.core.models import Submission

FIELD = "once"
KEPT = timedelta(hours=1)


def fresh() -> str:
    """The word of a form that is being shown."""
    return secrets.token_urlsafe(16)


def once(request: HttpRequest, work: Callable[[], HttpResponse]) -> HttpResponse:
    """What `work` answers to a signed-in person's form. If that leads elsewhere, the same form again leads there too.

    All of it is one transaction, and a form that is sent meanwhile waits for it. What is answered with a page, an error above
    all, stores nothing and may be sent again. A form without the word is taken as often as it comes.
    """
    word = request.POST.get(FIELD, "")
    if not word:
        return work()
    with transaction.atomic():
        Submission.objects.filter(user=request.user, created_at__lt=timezone.now() - KEPT).delete()
        sent, first = Submission.objects.get_or_create(user=request.user, key=_key(request, word))
        if not first:
            messages.info(request, "The form was sent twice. It was taken once: this is what came of it.")
            return redirect(sent.place)
        answer = work()
        if isinstance(answer, HttpResponseRedirect):
            sent.place = answer.url[:500]
            sent.save(update_fields=["place"])
        else:
            transaction.set_rollback(True)
    return answer


def _content(file: UploadedFile) -> str:
    """The digest of a file's content: one that was mended keeps its name, and often its size."""
    found = hashlib.sha256()
    for chunk in file.chunks():
        found.update(chunk)
    file.seek(0)
    return found.hexdigest()


def _key(request: HttpRequest, word: str) -> str:
    """Somebody who goes back and changes the form sends another one, though its word is the old one."""
    said = sorted((name, values) for name, values in request.POST.lists() if name != "csrfmiddlewaretoken")
    files = sorted((name, str(file.name), _content(file)) for name, group in request.FILES.lists() for file in group)
    return hashlib.sha256(json.dumps([request.path, word, said, files]).encode()).hexdigest()
