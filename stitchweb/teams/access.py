"""Who may what. Rows are fetched through these queries alone: what a person may not see does not exist for them."""

from __future__ import annotations

from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404

from stitchweb.teams.models import Membership, Role, Team, User

Person = User | AnonymousUser

EVERYBODY = frozenset(Role.values)
# Uploads programs, starts and steers runs.
WORKERS = frozenset({Role.OWNER, Role.MAINTAINER, Role.MEMBER})
# Scores candidates.
REVIEWERS = frozenset({Role.OWNER, Role.MAINTAINER, Role.REVIEWER})
# Changes members and what others own.
MANAGERS = frozenset({Role.OWNER, Role.MAINTAINER})

_NEEDED = {WORKERS: "a member", REVIEWERS: "a reviewer", MANAGERS: "a maintainer", EVERYBODY: "in the team"}


def memberships_for(user: Person) -> QuerySet[Membership]:
    """The person's memberships with their teams, one query."""
    if not user.is_authenticated:
        return Membership.objects.none()
    return Membership.objects.filter(user=user).select_related("team").order_by("team__name")


def teams_for(user: Person, roles: frozenset[str] = EVERYBODY) -> QuerySet[Team]:
    """The teams in which the person has one of `roles`."""
    if not user.is_authenticated:
        return Team.objects.none()
    return Team.objects.filter(memberships__user=user, memberships__role__in=roles)


def team_for(user: Person, slug: str, roles: frozenset[str] = EVERYBODY) -> Team:
    """The team of that slug. Http404 outside it, PermissionDenied inside it without one of `roles`. Two queries at most."""
    team = teams_for(user).filter(slug=slug).first()
    if team is None:
        raise Http404("There is no such team, or you are not in it.")
    require_role(user, team.pk, roles)
    return team


def role_of(user: Person, team_id: int) -> Role | None:
    """The person's role in a team, None outside it. One query."""
    if not user.is_authenticated:
        return None
    role = Membership.objects.filter(user=user, team_id=team_id).values_list("role", flat=True).first()
    return Role(role) if role else None


def require_role(user: Person, team_id: int, roles: frozenset[str]) -> Role:
    """The person's role if it is one of `roles`. Http404 outside the team, PermissionDenied with a sentence otherwise."""
    role = role_of(user, team_id)
    if role is None:
        raise Http404("There is no such team, or you are not in it.")
    if role not in roles:
        needed = _NEEDED.get(roles, "another role")
        raise PermissionDenied(f"You are {role} of this team and this needs {needed}. An owner can change your role.")
    return role
