"""What there is to do with publications, and which page does it."""

from __future__ import annotations

from stitchweb.core.permissions import ANYBODY, LINKED, MANAGERS, REVIEWERS, TEAM, WORKERS, Action, Route, form, get, post
from stitchweb.runs.permissions import SEE as SEE_RUN
from stitchweb.teams.permissions import USE_SITE

SEE = Action(
    "publication.see", "See and find what a team published, take it home, compare it", TEAM,
    "Not while one scores candidates of its program blind",
)  # fmt: skip
PUBLISH = Action("publication.publish", "Publish a verified candidate of an ended run", WORKERS)
CHANGE = Action(
    "publication.change", "Change notes, licence and tags of a publication; withdraw it", WORKERS,
    "Members: what they published",
)  # fmt: skip
CHANGE_ALL = Action("publication.change-all", "The same of everybody's publications", MANAGERS)
FORK = Action("publication.fork", "Start a run from a publication", WORKERS, "Of the team that gets the run")
COMMENT = Action("publication.comment", "Comment on a publication", WORKERS | REVIEWERS)
UNSAY = Action(
    "publication.delete-comment", "Delete a comment", WORKERS | REVIEWERS, "Those below a maintainer: their own"
)  # fmt: skip
UNSAY_ALL = Action("publication.delete-all-comments", "Delete everybody's comments on a publication", MANAGERS)
SHARE = Action("publication.share", "See, make and revoke share links", WORKERS, "Members revoke those that they made")
REVOKE_ALL = Action("publication.revoke-all", "Revoke everybody's share links", MANAGERS)
SEE_COLLECTION = Action("collection.see", "See the collections of a team", TEAM)
COLLECT = Action("collection.change", "Make, fill, change and delete collections", WORKERS)
SEE_BY_LINK = Action(
    "link.see", "See what a share link shows", LINKED, "Nothing beyond what was chosen; with the password if it has one"
)
ROBOTS = Action("site.robots", "Read what search engines may look at", ANYBODY)

ROUTES = {
    "published": get(USE_SITE),
    "publish": form(PUBLISH, refuses_nulls=True),
    "publication": Route(get=SEE, post=CHANGE),
    "publication-edit": get(CHANGE),
    "publication-file": get(SEE),
    "publication-zip": get(SEE),
    "publication-wheel": get(SEE),
    "publication-profile-file": get(SEE),
    "publication-withdraw": post(CHANGE),
    "publication-fork": post(FORK),
    "publication-comment": post(COMMENT),
    "publication-comment-delete": post(UNSAY),
    "publication-collect": post(COLLECT),
    "publication-shares": form(SHARE),
    "publication-share-revoke": post(SHARE),
    "compare": get(USE_SITE),
    "leaderboard": get(USE_SITE),
    "leaderboard-reference": get(SEE_RUN),
    "collections": Route(get=USE_SITE, post=COLLECT),
    "collection": Route(get=SEE_COLLECTION, post=COLLECT),
    "collection-take-out": post(COLLECT),
    "collection-delete": post(COLLECT),
    "shared": Route(get=SEE_BY_LINK, post=SEE_BY_LINK, by_token=True, limit="link"),
    "shared-file": Route(get=SEE_BY_LINK, by_token=True, limit="link"),
    "shared-wheel": Route(get=SEE_BY_LINK, by_token=True, limit="link"),
    "shared-profile-file": Route(get=SEE_BY_LINK, by_token=True, limit="link"),
    "shared-badge": Route(get=SEE_BY_LINK, by_token=True, limit="link"),
    "shared-card": Route(get=SEE_BY_LINK, by_token=True, limit="link"),
    "robots": get(ROBOTS),
}
