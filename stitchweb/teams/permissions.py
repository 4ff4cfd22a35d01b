"""What there is to do with the site as such, with people and with teams."""

from __future__ import annotations

from stitchweb.core.permissions import ANYBODY, LINKED, SIGNED_IN, TEAM, Action, get, post

HEALTH = Action("site.health", "Ask whether the site is well", ANYBODY)
SIGN_IN = Action("site.sign-in", "Open the page that says how to sign in, and sign out", ANYBODY)
USE_LINK = Action("site.use-login-link", "Sign in by a login link", LINKED, "Once, within its time, for its own person")
USE_SITE = Action("site.use", "Open a page that lists what one's own teams have", SIGNED_IN, "Others' rows are not in it")

SEE_TEAM = Action("team.see", "Know that a team exists, its name and its people", TEAM)

ROUTES = {
    "health": get(HEALTH),
    "login": get(SIGN_IN),
    "logout": post(SIGN_IN),
    "login-link": get(USE_LINK),
}
