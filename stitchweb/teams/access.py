"""Who may what. Rows are fetched through these queries alone: what a person may not see does not exist for them.

Which role may do what stands in no query: each takes an action of the permission table (`stitchweb/core/permissions.py`).
"""

from __future__ import annotations

from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404

from stitchweb.core.permissions import Action
from stitchweb.teams.models import Membership, Role, Team, User
from stitchweb.teams.permissions import SEE_TEAM

Person = User | AnonymousUser


def memberships_for(user: Person) -> QuerySet[Membership]:
    """The person's memberships with their teams, one query."""
    if not user.is_authenticated:
        return Membership.objects.none()
    return Membership.objects.filter(user=user).select_related("team").order_by("team__name")


def teams_for(user: Person, action: Action = SEE_TEAM) -> QuerySet[Team]:
    """The teams in which the person may do `action`."""
    if not user.is_authenticated:
        return Team.objects.none()
    return Team.objects.filter(memberships__user=user, memberships__role__in=action.roles)


def members_for(team_id: int, action: Action) -> QuerySet[Membership]:
    """The memberships of those who may do `action` in the team. The caller has asked who may see the team."""
    return Membership.objects.filter(team=team_id, role__in=action.roles)


def team_for(user: Person, slug: str, action: Action = SEE_TEAM) -> Team:
    """The team of that slug. Http404 outside it, PermissionDenied where the role does not allow it. Two queries at most."""
    team = teams_for(user).filter(slug=slug).first()
    if team is None:
        raise Http404("There is no such team, or you are not in it.")
    require(user, team.pk, action)
    return team


def role_of(user: Person, team_id: int) -> Role | None:
    """The person's role in a team, None outside it. One query."""
    if not user.is_authenticated:
        return None
    role = Membership.objects.filter(user=user, team_id=team_id).values_list("role", flat=True).first()
    return Role(role) if role else None


def may(user: Person, team_id: int, action: Action) -> bool:
    """Whether the person's role in the team allows `action`. One query."""
    return role_of(user, team_id) in action.roles


def require(user: Person, team_id: int, action: Action) -> Role:
    """The person's role if it allows `action`. Http404 outside the team, PermissionDenied with a sentence otherwise."""
    role = role_of(user, team_id)
    if role is None:
        raise Http404("There is no such team, or you are not in it.")
    if role not in action.roles:
        needed = f"{'an' if action.lowest[:1] in 'aeiou' else 'a'} {action.lowest}"
        raise PermissionDenied(f"You are {role} of this team and this needs {needed}. An owner can change your role.")
    return role
