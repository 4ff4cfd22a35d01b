"""What the answers share: something made, a page of a list, and nothing where the reader has it already."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.cache import patch_vary_headers
from django.utils.http import parse_etags
from pydantic import BaseModel

from stitchweb.api.problems import Malformed

Row = TypeVar("Row", bound=Model)
JSON = "application/json; charset=utf-8"
PER_PAGE, MOST_PER_PAGE = 50, 100


def made(what: BaseModel, place: str, status: int = 201) -> HttpResponse:
    """Something new: it and where it lies."""
    return HttpResponse(what.model_dump_json(), status=status, content_type=JSON, headers={"Location": place})


def fresh(request: HttpRequest, tag: str, answer: Callable[[], HttpResponse | BaseModel]) -> HttpResponse:
    """The answer under its entity tag; 304 without it when that is what the reader has."""
    tag = f'"{tag}"'
    known = parse_etags(request.headers.get("If-None-Match", ""))
    if tag in known or f"W/{tag}" in known:
        response = HttpResponse(status=304)
    else:
        found = answer()
        response = found if isinstance(found, HttpResponse) else HttpResponse(found.model_dump_json(), content_type=JSON)
    response.headers["ETag"] = tag
    patch_vary_headers(response, ["Authorization"])
    return response


def page(rows: QuerySet[Row], cursor: str, limit: int) -> tuple[list[Row], str | None]:
    """The rows after the cursor, newest first, and the next cursor. A cursor is the key of the last row that was shown."""
    if cursor:
        if not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 16):
            raise Malformed("The cursor is none of ours: take `next` of the page before, as it is.")
        rows = rows.filter(pk__lt=int(cursor))
    found: list[Any] = list(rows.order_by("-pk")[: limit + 1])
    return found[:limit], str(found[limit - 1].pk) if len(found) > limit else None
