"""Who may see releases, judges and rewards: managers of a team, once nothing that these tell can come to them for scoring."""

from __future__ import annotations

from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404

from stitchweb.core.permissions import Action
from stitchweb.datasets.models import Export, Judge, Record, Reference, Release
from stitchweb.datasets.permissions import MAKE, READ
from stitchweb.review.access import blind_to
from stitchweb.review.models import Project
from stitchweb.review.services.seen import note_all
from stitchweb.teams.access import Person, team_for, teams_for
from stitchweb.teams.models import Team, User


def teams_to_read(user: Person) -> QuerySet[Team]:
    """Teams whose datasets the person manages, by name."""
    return teams_for(user, READ).order_by("name")


def team_to_read(user: User, slug: str, action: Action = READ) -> Team:
    """The team. Http404 outside it; PermissionDenied for other roles, and while something of it may still come to the person.

    That the person may have read its labels is noted: none of its items comes to them for scoring after that.
    """
    team = team_for(user, slug, action)
    left = blind_to(user).filter(project__team=team).count()
    if left:
        raise PermissionDenied(
            f"You score in review projects of this team, and {left} of their candidates may still come to you. Releases, judges"
            " and rewards tell labels and verdicts, so they open to you after that, or when you are taken off the reviewers."
        )
    note_all(user, *Project.objects.filter(team=team))
    return team


def team_to_make(user: User, slug: str) -> Team:
    return team_to_read(user, slug, MAKE)


def release_of(team: Team, name: str) -> Release:
    found = Release.objects.filter(team=team, name=name).select_related("before", "created_by").first()
    if found is None:
        raise Http404("This team has no such release.")
    return found


def export_of(team: Team, pk: int) -> Export:
    found = Export.objects.filter(release__team=team, pk=pk).select_related("release").first()
    if found is None:
        raise Http404("This team has no such export.")
    return found


def judge_of(team: Team, pk: int) -> Judge:
    found = Judge.objects.filter(team=team, pk=pk).first()
    if found is None:
        raise Http404("This team has no such judge.")
    return found


def references_of(team: Team) -> QuerySet[Reference]:
    return Reference.objects.filter(team=team).select_related("revision__program")


def records_of(team: Team) -> QuerySet[Record]:
    return Record.objects.filter(team=team)
