"""Errors as problem details (RFC 9457): what, why, what to do, for programs and for the people who read their logs.

400 is for a request that does not fit the description; 422 for one that fits and is refused, with the site's own sentences.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from django.conf import settings
from django.core.exceptions import PermissionDenied, RequestDataTooBig, TooManyFieldsSent, TooManyFilesSent
from django.http import Http404, HttpRequest, HttpResponse, UnreadablePostError
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, ValidationError
from pydantic import BaseModel

from stitchweb.core.limits import TooMany
from stitchweb.core.trouble import trouble
from stitchweb.core.withheld import Closed
from stitchweb.programs.services import UploadRefused
from stitchweb.programs.uploads import Problem as UploadProblem
from stitchweb.review.services.projects import ProjectRefused
from stitchweb.runs.services import ControlRefused

logger = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
TITLES = {
    400: "The request does not fit the description",
    401: "No usable token",
    403: "Not allowed",
    404: "Not found",
    405: "Another method",
    409: "Not now",
    413: "Too large",
    415: "Another kind of body",
    422: "Refused",
    429: "Too many requests",
    500: "Our mistake",
    503: "Not now",
    507: "No room",
}


class Flaw(BaseModel):
    """One thing that is wrong: where in the request, why, the way out, and the line of a text where there is one."""

    at: str
    detail: str
    way_out: str = ""
    line: int | None = None


class Problem(BaseModel):
    """RFC 9457. `errors`: each flaw, where there are several or they have places."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    errors: list[Flaw] = []


class Malformed(Exception):
    """The request does not fit the description. The message is for whoever wrote the program."""


class TooManyStreams(Exception):
    """The person watches as many runs at once as one may. The message is for them."""

    retry_s = 15


class KeyReused(Exception):
    """An idempotency key came with another request before."""


def problem(
    request: HttpRequest, status: int, detail: str, errors: Iterable[Flaw] = (), headers: Mapping[str, str] | None = None
) -> HttpResponse:
    """The answer. `detail` is a sentence or two."""
    said = Problem(
        type=f"{settings.SITE_URL}/api/docs#problem-{status}", title=TITLES.get(status, "Refused"), status=status,
        detail=detail, instance=request.path, errors=list(errors),
    )  # fmt: skip
    more = {"Cache-Control": "no-store", **(headers or {})}
    return HttpResponse(json.dumps(said.model_dump()), status=status, content_type=MEDIA_TYPE, headers=more)


def flaws_of(problems: Iterable[UploadProblem]) -> list[Flaw]:
    """The site's own problems of an upload or a form."""
    return [Flaw(at=p.path or p.code, detail=p.sentence, way_out=p.way_out, line=p.line) for p in problems]


class FormRefused(Exception):
    """A form underneath did not take what the request says."""

    def __init__(self, problems: list[UploadProblem]) -> None:
        super().__init__("; ".join(f"{p.sentence} {p.way_out}".strip() for p in problems))
        self.problems = problems


def _unfit(request: HttpRequest, error: ValidationError) -> HttpResponse:
    flaws = [
        Flaw(at=".".join(str(part) for part in found["loc"]), detail=str(found["msg"]).removeprefix("Value error, "))
        for found in error.errors[:50]
    ]
    first = f" {flaws[0].at}: {flaws[0].detail}." if flaws else ""
    return problem(request, 400, f"The request does not fit the description.{first}", flaws)


def _http(request: HttpRequest, error: HttpError) -> HttpResponse:
    return problem(request, error.status_code, error.message)


def _no_token(request: HttpRequest, error: AuthenticationError) -> HttpResponse:
    given = bool(request.headers.get("Authorization"))
    why = "The token is not known, has expired or was revoked." if given else "This needs a token: Authorization: Bearer stw_…"
    invalid = ', error="invalid_token"' if given else ""
    headers = {"WWW-Authenticate": f'Bearer realm="StitchWeb"{invalid}'}
    return problem(request, 401, f"{why} Make one at {settings.SITE_URL}/settings/tokens/.", headers=headers)


def _not_found(request: HttpRequest, error: Http404) -> HttpResponse:
    said = str(error)
    if not said.endswith("."):
        said = "There is nothing at this address, or it is not shared with you."
    return problem(request, 404, said)


def _denied(request: HttpRequest, error: PermissionDenied) -> HttpResponse:
    opens = f" {error.opens}" if isinstance(error, Closed) else ""
    return problem(request, 403, f"{error or 'You may not do this.'}{opens}")


def _upload(request: HttpRequest, error: UploadRefused | FormRefused) -> HttpResponse:
    if any(p.code == "too-many-uploads" for p in error.problems):
        return problem(request, 429, str(error), flaws_of(error.problems), {"Retry-After": "600"})
    return problem(request, 422, str(error), flaws_of(error.problems))


def _refused(request: HttpRequest, error: Exception) -> HttpResponse:
    return problem(request, 422, str(error))


def _not_now(request: HttpRequest, error: Exception) -> HttpResponse:
    return problem(request, 409, str(error))


def _too_many(request: HttpRequest, error: TooMany | TooManyStreams) -> HttpResponse:
    return problem(request, 429, str(error), headers={"Retry-After": str(error.retry_s)})


def _too_large(request: HttpRequest, error: Exception) -> HttpResponse:
    most = settings.DATA_UPLOAD_MAX_MEMORY_SIZE // 2**20
    return problem(request, 413, f"The request is too large: a body may have {most} MB. Nothing was stored.")


def _malformed(request: HttpRequest, error: Exception) -> HttpResponse:
    return problem(request, 400, str(error))


def _broken_off(request: HttpRequest, error: Exception) -> HttpResponse:
    return problem(request, 400, "The body ended before its Content-Length did. Nothing was stored; send it again.")


def _any(request: HttpRequest, error: Exception) -> HttpResponse:
    cause = trouble(error)
    logger.error("the API could not answer %s %s", request.method, request.path, exc_info=error)
    if cause is None:
        return problem(request, 500, "This is a mistake of ours, and it is in the site's log. Nothing was stored.")
    headers = {"Retry-After": str(cause.retry_s)} if cause.retry_s else {}
    return problem(request, cause.status, f"{cause.sentence} {cause.way_out}", headers=headers)


_ANSWERS: dict[type[Exception], Callable[[HttpRequest, Any], HttpResponse]] = {
    ValidationError: _unfit,
    HttpError: _http,
    AuthenticationError: _no_token,
    Http404: _not_found,
    PermissionDenied: _denied,
    UploadRefused: _upload,
    FormRefused: _upload,
    ControlRefused: _not_now,
    ProjectRefused: _refused,
    KeyReused: _refused,
    Malformed: _malformed,
    TooMany: _too_many,
    TooManyStreams: _too_many,
    RequestDataTooBig: _too_large,
    TooManyFieldsSent: _too_large,
    TooManyFilesSent: _too_large,
    UnreadablePostError: _broken_off,
    Exception: _any,
}


def set_answers(api: NinjaAPI) -> None:
    """Let the API answer every error as a problem."""
    for error, answer in _ANSWERS.items():
        api.add_exception_handler(error, answer)
