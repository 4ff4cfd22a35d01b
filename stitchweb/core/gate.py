"""The gate before every view: an address without a row in the permission table is not served, and who is not signed in is sent
to sign in wherever the row needs a person. Which rows of which team they may see is each app's `access.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import ImproperlyConfigured
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, HttpResponseNotAllowed, QueryDict

from stitchweb.core.errors import too_many
from stitchweb.core.limits import TooMany, count
from stitchweb.core.permissions import OPERATORS, Route, how_to_add, table


class Gate:
    """After AuthenticationMiddleware. Leaves the action at `request.action`."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: Any) -> HttpResponseBase | None:
        name = route_name(request)
        row = table().routes.get(name)
        if row is None:
            raise ImproperlyConfigured(how_to_add(name))
        action = row.action(request.method or "")
        if action is None:
            return HttpResponseNotAllowed(row.methods)
        request.action = action
        if not row.by_token:
            _without_nulls(request, ("GET",) if row.refuses_nulls else ("GET", "POST"))
        if not row.by_token and action.needs_person:
            if not request.user.is_authenticated:
                return redirect_to_login(request.get_full_path())
            if action.who == OPERATORS and not request.user.is_staff:
                raise Http404("There is no such page, or it is not for you.")
        return _limited(request, row)


def _without_nulls(request: HttpRequest, names: tuple[str, ...]) -> None:
    """No database takes a null byte in a text, and no person types one: what came with some is looked at without."""
    for name in names:
        sent: QueryDict = getattr(request, name)
        if not any("\0" in text for key, values in sent.lists() for text in (key, *values)):
            continue
        kept = QueryDict(mutable=True, encoding=sent.encoding)
        for key, values in sent.lists():
            kept.setlist(key.replace("\0", "\ufffd"), [text.replace("\0", "\ufffd") for text in values])
        kept._mutable = False  # as Django's own
        setattr(request, name, kept)


def _limited(request: HttpRequest, row: Route) -> HttpResponse | None:
    """Count the request. A runner's are not: a job's token lets it say what that one job says."""
    writes = request.method not in ("GET", "HEAD", "OPTIONS")
    name = row.limit or ("write" if writes and not row.by_token else "")
    try:
        if name and (writes or row.limit == "link"):
            count(name, request)
    except TooMany as refusal:
        return too_many(request, refusal)
    return None


def route_name(request: HttpRequest) -> str:
    """The name of the address with its namespaces, as the table has it; its pattern where it has no name."""
    match = request.resolver_match
    return (match.view_name if match.url_name else match.route) if match else ""
