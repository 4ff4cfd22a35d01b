"""Who sees which publications, and who may change what. What a person may not see does not exist for them.

Everybody of a team sees what it published, unless the program is closed to them for now. A link is its own right: whoever holds
the token of an open one may see what it shows.
"""

from __future__ import annotations

import hashlib

from django.core.exceptions import PermissionDenied
from django.db.models import Count, Q, QuerySet
from django.http import Http404

from stitchweb.core.permissions import Action
from stitchweb.core.withheld import open_to, refuse_closed
from stitchweb.runs.access import runs_for
from stitchweb.runs.models import ENDED, RunQuerySet
from stitchweb.sharing.models import Collection, Comment, Publication, PublicationQuerySet, ShareLink
from stitchweb.sharing.permissions import CHANGE, CHANGE_ALL, REVOKE_ALL, SEE, SEE_COLLECTION, SHARE, UNSAY, UNSAY_ALL
from stitchweb.teams.access import Person, may, require, teams_for


def publications_for(user: Person, action: Action = SEE) -> PublicationQuerySet:
    """All versions that the person's teams show, newest first, without withdrawn and closed ones. Two queries."""
    rows = Publication.objects.filter(open_to(user, "program"), team__in=teams_for(user, action))
    return rows.standing().for_lists()


def publication_for(user: Person, pk: int, action: Action = SEE) -> Publication:
    """The publication, withdrawn or not, with team, author and run; or Http404. PermissionDenied with a sentence for those who
    see it and may not do `action`, or while its program is closed to them."""
    rows = Publication.objects.filter(pk=pk, team__in=teams_for(user, SEE))
    found = rows.filter(open_to(user, "program")).for_lists().select_related("run", "revision", "parent").first()
    if found is None:
        hidden = rows.values_list("program", flat=True).first()
        if hidden is not None:
            refuse_closed(user, hidden)
        raise Http404("There is no such publication, or it is not shared with you.")
    if action is not SEE:
        require(user, found.team_id, action)
    return found


def publication_to_change(user: Person, pk: int) -> Publication:
    """The publication, for its author and for maintainers."""
    found = publication_for(user, pk, CHANGE)
    if found.author_id != user.pk and not may(user, found.team_id, CHANGE_ALL):
        raise PermissionDenied("Somebody else published this. Its author or a maintainer can do that.")
    return found


def may_change(user: Person, publication: Publication, role: str | None) -> bool:
    """Whether `publication_to_change` would give it, for pages that know the role already."""
    return role in CHANGE_ALL.roles or (role in CHANGE.roles and publication.author_id == user.pk)


def comments_of(publication: Publication) -> QuerySet[Comment]:
    return publication.comments.select_related("author").prefetch_related("mentions")


def comment_to_delete(user: Person, publication: Publication, pk: int) -> Comment:
    """A comment, for whoever wrote it and for maintainers."""
    comment = publication.comments.filter(pk=pk).first()
    if comment is None:
        raise Http404("There is no such comment.")
    role = require(user, publication.team_id, UNSAY)
    if comment.author_id != user.pk and role not in UNSAY_ALL.roles:
        raise PermissionDenied("Somebody else wrote this comment. They or a maintainer can delete it.")
    return comment


def collections_for(user: Person, action: Action = SEE_COLLECTION) -> QuerySet[Collection]:
    """Collections of the person's teams by name. `size`: what of each the person may see."""
    seen = Q(publications__in=Publication.objects.filter(open_to(user, "program")).standing())
    rows = Collection.objects.filter(team__in=teams_for(user, action)).select_related("team", "created_by")
    return rows.annotate(size=Count("publications", filter=seen))


def collection_for(user: Person, pk: int, action: Action = SEE_COLLECTION) -> Collection:
    found = collections_for(user).filter(pk=pk).first()
    if found is None:
        raise Http404("There is no such collection, or it is not shared with you.")
    if action is not SEE_COLLECTION:
        require(user, found.team_id, action)
    return found


def links_of(publication: Publication) -> QuerySet[ShareLink]:
    """Its links, newest first, for members."""
    return publication.links.select_related("created_by", "revoked_by", "publication")


def link_to_change(user: Person, publication: Publication, pk: int) -> ShareLink:
    """A link, for whoever made it and for maintainers."""
    link = links_of(publication).filter(pk=pk).first()
    if link is None:
        raise Http404("There is no such link.")
    role = require(user, publication.team_id, SHARE)
    if link.created_by_id != user.pk and role not in REVOKE_ALL.roles:
        raise PermissionDenied("Somebody else made this link. They or a maintainer can revoke it.")
    return link


def digest_of(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


class LinkGone(Exception):
    """The link showed something once. The message is for whoever holds it."""


_GONE = {
    "revoked": "Whoever made this link has revoked it.",
    "expired": "This link has expired.",
    "withdrawn": "What this link showed was withdrawn.",
}


def link_of(token: str) -> ShareLink:
    """The open link of a token. Http404 for a token that never was one, LinkGone with a sentence otherwise. One query."""
    rows = ShareLink.objects.select_related("publication", "publication__author", "publication__revision")
    link = rows.filter(token_sha256=digest_of(token)).first()
    if link is None:
        raise Http404("There is no such link. Copy it whole, or ask whoever gave it to you.")
    if link.state != "open":
        raise LinkGone(f"{_GONE[link.state]} Ask whoever gave it to you for another one.")
    return link


def ended_runs_for(user: Person) -> RunQuerySet:
    """Ended runs, which leaderboards count."""
    return runs_for(user).filter(status__in=ENDED)
