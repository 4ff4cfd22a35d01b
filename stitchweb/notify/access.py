"""Which notifications and hooks a person may see: their own, and those of teams that they manage."""

from __future__ import annotations

from django.db.models import Q, QuerySet
from django.http import Http404

from stitchweb.notify.models import Delivery, Hook, Notification
from stitchweb.notify.permissions import HOOKS
from stitchweb.teams.access import Person, team_for
from stitchweb.teams.models import Team


def notifications_for(user: Person) -> QuerySet[Notification]:
    """The person's notifications, newest first; none of teams that they have left."""
    rows = Notification.objects.filter(user=user.pk, shown=True)
    return rows.filter(Q(team=None) | Q(team__memberships__user=user.pk)).select_related("team")


def unread(user: Person) -> int:
    """How many of them are unread. One query."""
    return notifications_for(user).filter(read_at=None).count()


def notification_for(user: Person, pk: int) -> Notification:
    """One of them, or Http404."""
    found = notifications_for(user).filter(pk=pk).first()
    if found is None:
        raise Http404("There is no such notification, or it is somebody else's.")
    return found


def team_with_hooks(user: Person, slug: str) -> Team:
    """The team, for those who may change its hooks. Http404 and PermissionDenied as `team_for`."""
    return team_for(user, slug, HOOKS)


def hook_for(user: Person, slug: str, pk: int) -> Hook:
    """A hook of the team, for the same people. Http404 where there is none."""
    found = Hook.objects.filter(team=team_with_hooks(user, slug), pk=pk).select_related("team", "created_by").first()
    if found is None:
        raise Http404("This team has no such web hook.")
    return found


def delivery_for(user: Person, slug: str, hook: int, pk: int) -> Delivery:
    """A delivery of a hook, for the same people. Http404 where there is none."""
    found = Delivery.objects.filter(hook=hook_for(user, slug, hook), pk=pk).first()
    if found is None:
        raise Http404("There is no such delivery of this web hook.")
    return found
