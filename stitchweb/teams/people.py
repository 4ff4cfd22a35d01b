"""Who is in a team and as what: every write about it. A team always has an owner."""

from __future__ import annotations

from django.db import transaction
from django.http import Http404

from stitchweb.teams.access import require
from stitchweb.teams.models import Membership, Role, Team, User
from stitchweb.teams.permissions import CHANGE_OWNERS, MANAGE_PEOPLE, RENAME_TEAM, SEE_TEAM


class Refused(Exception):
    """The team would be left without an owner, or the like. The message is for the person."""


@transaction.atomic
def change_role(by: User, team: Team, member: int, role: Role) -> Membership:
    """Give a member another role. PermissionDenied for who may not; Refused for the last owner."""
    require(by, team.pk, MANAGE_PEOPLE)
    row = _locked(team, member)
    if Role.OWNER in (row.role, role):
        require(by, team.pk, CHANGE_OWNERS)
    if row.role == Role.OWNER and role != Role.OWNER:
        _keep_an_owner(team, row)
    row.role = role
    row.save(update_fields=["role"])
    return row


@transaction.atomic
def remove(by: User, team: Team, member: int) -> Membership:
    """Take somebody out of the team. What they made there stays the team's."""
    require(by, team.pk, MANAGE_PEOPLE)
    row = _locked(team, member)
    if row.role == Role.OWNER:
        require(by, team.pk, CHANGE_OWNERS)
        _keep_an_owner(team, row)
    row.delete()
    return row


@transaction.atomic
def leave(user: User, team: Team) -> None:
    """Go out of the team. Refused for its last owner."""
    require(user, team.pk, SEE_TEAM)
    row = _locked(team, Membership.objects.get(team=team, user=user).pk)
    if row.role == Role.OWNER:
        _keep_an_owner(team, row)
    row.delete()


@transaction.atomic
def transfer(by: User, team: Team, member: int) -> Membership:
    """Hand the team over: the member is its owner from now on, who handed it over a maintainer."""
    require(by, team.pk, CHANGE_OWNERS)
    row = _locked(team, member)
    if row.user_id == by.pk:
        raise Refused("The team is yours already. Choose somebody else.")
    row.role = Role.OWNER
    row.save(update_fields=["role"])
    Membership.objects.filter(team=team, user=by).update(role=Role.MAINTAINER)
    return row


def rename(by: User, team: Team, name: str) -> None:
    """Another name; the address of its pages stays."""
    require(by, team.pk, RENAME_TEAM)
    name = name.strip()[:120]
    if not name:
        raise Refused("A team needs a name.")
    team.name = name
    team.save(update_fields=["name"])


def _locked(team: Team, member: int) -> Membership:
    """The membership, with the team's row locked: two owners who part at once do it one after the other."""
    Team.objects.select_for_update().get(pk=team.pk)
    row = Membership.objects.select_related("user").filter(team=team, pk=member).first()
    if row is None:
        raise Http404("There is nobody of that number in the team any more.")
    return row


def _keep_an_owner(team: Team, row: Membership) -> None:
    if not Membership.objects.filter(team=team, role=Role.OWNER).exclude(pk=row.pk).exists():
        raise Refused(f"{row.user} is the only owner. Hand the team over to somebody first, or delete it.")
