"""Which of their teams a person looks at: one, or all. It filters lists and opens nothing."""

from __future__ import annotations

from typing import Any

from django.db.models import Q, QuerySet
from django.http import HttpRequest

from stitchweb.teams.models import Team

KEY = "team"


def choose(request: HttpRequest, team: Team | None) -> None:
    """Look at this team from now on; at all with None."""
    if team is None:
        request.session.pop(KEY, None)
    else:
        request.session[KEY] = {"pk": team.pk, "name": team.name}


def chosen_name(request: HttpRequest) -> str:
    """The name of the chosen team, "" for all."""
    return str(_chosen(request).get("name", ""))


def in_chosen(request: HttpRequest, rows: QuerySet[Any], path: str = "team") -> QuerySet[Any]:
    """Those of `rows` that belong to the chosen team; all of them where none is chosen. No further query."""
    pk = _chosen(request).get("pk")
    return rows.filter(Q(**{path: pk})) if pk else rows


def _chosen(request: HttpRequest) -> dict[str, Any]:
    session = getattr(request, "session", None)
    return session.get(KEY) or {} if session is not None else {}
