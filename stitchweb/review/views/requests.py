"""What the views share: the request of somebody who is signed in, numbers out of forms, and how a refusal is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect

from stitchweb.review.services.projects import ProjectRefused
from stitchweb.review.services.queue import QueueRefused
from stitchweb.teams.models import User

Refused = (ProjectRefused, QueueRefused)


class SignedIn(HttpRequest):
    """What a view gets whose action needs a person."""

    user: User


def number(word: str) -> int | None:
    """A whole number out of a form; None for what is none, or more than a database holds."""
    return int(word) if word.isdecimal() and len(word) < 18 else None


def numbers(request: HttpRequest, name: str) -> list[int]:
    return [key for word in request.POST.getlist(name) if (key := number(word)) is not None]


def kept(act: Callable[[], None]) -> JsonResponse:
    """What a page that saves in place hears: nothing, or why `act` was refused."""
    try:
        act()
    except Refused as refusal:
        return JsonResponse({"refused": str(refusal)}, status=409)
    return JsonResponse({})


def done(request: HttpRequest, act: Callable[[], str | None], to: str, *args: Any) -> HttpResponse:
    """Do `act` and lead to a page, which says what `act` returned, or why it was refused."""
    try:
        if said := act():
            messages.success(request, said)
    except Refused as refusal:
        messages.error(request, str(refusal))
    return redirect(to, *args)
