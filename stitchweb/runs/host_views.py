"""What runners ask of the site about themselves: to join, and every few seconds that they are there. No session, no cookie."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import HttpRequest, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from stitchweb.runs import hosts
from stitchweb.runs.jobs import Bad, body_of, text_of

MAX_WORD = 64 * 1024  # bytes of what a runner says of itself; anybody may send it, known or not


def answered(view: Callable[[HttpRequest, dict[str, Any]], dict[str, Any]]) -> Callable[[HttpRequest], JsonResponse]:
    """Answers with the view's dictionary, or says why not: 400 not understood, 401 not known, 409 not possible."""

    @csrf_exempt  # no cookie is looked at here
    @require_POST
    @wraps(view)
    def wrapper(request: HttpRequest) -> JsonResponse:
        try:
            return JsonResponse(view(request, body_of(request, MAX_WORD)))
        except Bad as bad:
            return JsonResponse({"error": str(bad)}, status=bad.status)
        except hosts.Unknown as sentence:
            return JsonResponse({"error": str(sentence)}, status=401)
        except hosts.Refused as sentence:
            return JsonResponse({"error": str(sentence)}, status=409)

    return wrapper


@answered
def join(request: HttpRequest, body: dict[str, Any]) -> dict[str, Any]:
    """{"token", "name"} → {"name", "secret", "queues", "broker", "user"}. Once per token."""
    return hosts.join(text_of(body, "token"), text_of(body, "name"))


@answered
def present(request: HttpRequest, body: dict[str, Any]) -> dict[str, Any]:
    """{"name", "about", "health", "use"} and the header X-Runner-Secret → {"state"}."""
    about, use = body.get("about", {}), body.get("use", {})
    if not isinstance(about, dict) or not isinstance(use, dict) or not isinstance(body.get("health", ""), str):
        raise Bad("A runner's word of itself has the objects about and use, and the text health.")
    runner = hosts.known(text_of(body, "name"), request.headers.get("X-Runner-Secret", ""))
    try:
        return {"state": hosts.present(runner, about, body.get("health", ""), use)}
    except RecursionError:
        raise Bad("A runner's word of itself is nested too deep.") from None
