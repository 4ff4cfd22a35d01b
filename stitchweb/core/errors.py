"""The answers to a request that no view could answer, in words for the person who sent it."""

from __future__ import annotations

import sys

from django.conf import settings
from django.core.exceptions import RequestDataTooBig, TooManyFieldsSent, TooManyFilesSent
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.template.loader import get_template

from stitchweb.core.trouble import trouble
from stitchweb.core.withheld import Closed


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """400, or 413 with the limit that was passed. What Django itself would say stays in the log: it is for programmers."""
    sentence, status = "", 400
    if isinstance(exception, RequestDataTooBig):
        most = settings.DATA_UPLOAD_MAX_MEMORY_SIZE // 2**20
        sentence = f"The form is too large: its fields may have {most} MB. Nothing was stored. Shorten the text."
    elif isinstance(exception, TooManyFilesSent):
        most = settings.DATA_UPLOAD_MAX_NUMBER_FILES
        sentence = f"There are too many files: at most {most} are taken. Nothing was stored. Upload them in parts or as a .zip."
    elif isinstance(exception, TooManyFieldsSent):
        sentence = f"The form has too many fields: at most {settings.DATA_UPLOAD_MAX_NUMBER_FIELDS}. Nothing was stored."
    if sentence:
        status = 413
    return render(request, "400.html", {"exception": sentence, "status": status}, status=status)


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    """403: why, and for what opens later also when."""
    closed = exception if isinstance(exception, Closed) else None
    return render(request, "403.html", {"exception": str(exception), "closed": closed}, status=403)


def too_many(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """429: how much one may, and when again. Of sign-in, whose limits are django-allauth's, a minute is said."""
    retry_s = getattr(exception, "retry_s", 60)
    sentence = str(exception or "That was more attempts than one may make in a short time. Try again in a minute.")
    if request.headers.get("Accept") == "application/json":
        answer: HttpResponse = JsonResponse({"refused": sentence, "error": sentence}, status=429)
    else:
        answer = render(request, "429.html", {"exception": sentence}, status=429)
    answer["Retry-After"] = str(retry_s)
    return answer


def server_error(request: HttpRequest) -> HttpResponse:
    """500; or, where the machine is in trouble, what it is and what helps. The error itself is in the log."""
    cause = trouble(sys.exc_info()[1])
    # Without the request: who signed in is asked of the database, which may be what failed.
    page = get_template("500.html").render({"trouble": cause, "sent": request.method == "POST"})
    answer = HttpResponse(page, status=cause.status if cause else 500)
    if cause and cause.retry_s:
        answer["Retry-After"] = str(cause.retry_s)
    return answer
