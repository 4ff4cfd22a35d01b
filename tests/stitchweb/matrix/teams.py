"""Signing in, people and teams."""

from __future__ import annotations

from datetime import timedelta

from stitchweb.core.permissions import Who
from stitchweb.teams.services import make_login_link, use_login_link
from tests.stitchweb.matrix import Visit, Visits
from tests.stitchweb.matrix.stage import Stage


def _token(stage: Stage, *, life: timedelta = timedelta(hours=1)) -> str:
    return make_login_link(stage.people[Who.OWNER], life=life).removeprefix("/login/")


def visits(stage: Stage) -> Visits:
    used = _token(stage)
    use_login_link(used)
    links = {
        Who.LINK: ({"token": _token(stage)},),
        Who.DEAD_LINK: ({"token": used}, {"token": _token(stage, life=timedelta(seconds=-1))}),
    }
    return {
        "health": Visit(),
        "login": Visit(),
        "logout": Visit(),
        # A dead link asks the row whether it can still be spent. Who is signed in already is led on.
        "login-link": Visit({"token": "unknown"}, links=links, writes=True, refused=(302,)),
    }
