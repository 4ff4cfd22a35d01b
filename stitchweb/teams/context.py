"""What every page shows of a person's teams. No query."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from stitchweb.teams.switch import chosen_name


def teams(request: HttpRequest) -> dict[str, Any]:
    """`chosen_team`: the name of the one that the person works in, "" for all of theirs."""
    return {"chosen_team": chosen_name(request)}
