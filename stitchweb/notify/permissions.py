"""What there is to do with notifications and web hooks."""

from __future__ import annotations

from stitchweb.core.permissions import MANAGERS, SIGNED_IN, Action, form, get, post
from stitchweb.runs.permissions import SEE
from stitchweb.teams.permissions import USE_SITE

OWN = Action("notification.own", "Read one's notifications, and choose what one is told of", SIGNED_IN, "One's own alone")
HOOKS = Action("team.hooks", "Add, change, test and remove web hooks, and read what was sent to them", MANAGERS)

ROUTES = {
    "notifications": get(OWN),
    "bell": get(OWN),
    "notification": post(OWN),
    "notifications-read": post(OWN),
    "notification-settings": form(OWN),
    "hooks": get(USE_SITE),
    "team-hooks": form(HOOKS),
    "hook": form(HOOKS),
    "hook-remove": post(HOOKS),
    "hook-test": post(HOOKS),
    "hook-again": post(HOOKS),
}
TASKS = {"stitchweb.deliver": SEE}
