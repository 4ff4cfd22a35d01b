"""What there is to do with the API. Its addresses do what the pages do, so their actions are those of the other apps."""

from __future__ import annotations

from stitchweb.core.permissions import ANYBODY, SIGNED_IN, Action, Route, form, get, post
from stitchweb.llm.permissions import SEE as SEE_MODELS
from stitchweb.programs.permissions import SEE as SEE_PROGRAM
from stitchweb.programs.permissions import UPLOAD
from stitchweb.review.permissions import EXPORT, MANAGE
from stitchweb.runs.permissions import SEE, START, STEER
from stitchweb.teams.permissions import USE_SITE

READ_ABOUT = Action("api.read-about", "Read what the API is, and take its client home", ANYBODY)
OWN_TOKENS = Action("api.own-tokens", "Make API tokens, see when they were used, revoke them", SIGNED_IN, "One's own alone")


def _told(get: Action | None = None, post: Action | None = None) -> Route:
    """By the token of a person: what a role may do, its token may, within its scopes."""
    return Route(get=get, post=post, by_token=True)


ROUTES = {
    "api-docs": get(READ_ABOUT),
    "api-client": get(READ_ABOUT),
    "api-nowhere": Route(get=READ_ABOUT, post=READ_ABOUT, put=READ_ABOUT, patch=READ_ABOUT, delete=READ_ABOUT),
    "api:openapi-json": get(READ_ABOUT),
    "api:api-root": get(READ_ABOUT),
    "tokens": form(OWN_TOKENS),
    "token-revoke": post(OWN_TOKENS),
    "api:teams": _told(USE_SITE),
    "api:team-models": _told(SEE_MODELS),
    "api:programs": _told(USE_SITE, UPLOAD),
    "api:program": _told(SEE_PROGRAM),
    "api:revisions": _told(post=UPLOAD),
    "api:source": _told(SEE_PROGRAM),
    "api:runs": _told(USE_SITE, START),
    "api:run": _told(SEE),
    "api:cancel": _told(post=STEER),
    "api:events": _told(SEE),
    "api:watch": _told(SEE),
    "api:candidates": _told(SEE),
    "api:candidate": _told(SEE),
    "api:file": _told(SEE),
    "api:build-log": _told(SEE),
    "api:bundle": _told(SEE),
    "api:projects": _told(USE_SITE),
    "api:bring-in": _told(post=MANAGE),
    "api:labels": _told(EXPORT),
    "api:probes": _told(EXPORT),
}
