"""What there is to do for who runs the site."""

from __future__ import annotations

from stitchweb.core.permissions import ANYBODY, OPERATORS, Action, Route, form, get, post

RUN_SITE = Action("site.operate", "See runners, queue and what teams use; drain, quarantine, remove; set quotas", OPERATORS)
MEASURE = Action("site.measure", "Read the site's measures", ANYBODY, "With METRICS_TOKEN, or from the same machine")
ALIVE = Action("site.alive", "Ask whether a process lives and is ready", ANYBODY)

ROUTES = {
    "operate": get(RUN_SITE),
    "operate-runners": form(RUN_SITE),
    "operate-runner": post(RUN_SITE),
    "operate-queue": get(RUN_SITE),
    "operate-teams": get(RUN_SITE),
    "operate-quota": form(RUN_SITE),
    "metrics": Route(get=MEASURE, by_token=True),
    "healthz": get(ALIVE),
    "readyz": get(ALIVE),
}
