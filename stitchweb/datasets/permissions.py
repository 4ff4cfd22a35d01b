"""What there is to do with datasets, judges and rewards, and which page and task does it."""

from __future__ import annotations

from stitchweb.core.permissions import MANAGERS, Action, Route, get, post
from stitchweb.runs.permissions import SEE as SEE_RUN
from stitchweb.runs.permissions import START
from stitchweb.teams.permissions import USE_SITE

READ = Action(
    "datasets.read", "Read a team's releases, judges and rewards, and download exports", MANAGERS,
    "Not while candidates of its review projects may still come to them for scoring",
)  # fmt: skip
MAKE = Action(
    "datasets.make", "Make releases and exports, train and choose judges, set the reward, place references", MANAGERS,
    "Not while candidates of its review projects may still come to them for scoring",
)  # fmt: skip

ROUTES = {
    "run-judged": get(SEE_RUN),
    "datasets": get(USE_SITE),
    "team-datasets": Route(get=READ, post=MAKE),
    "release": get(READ),
    "release-cancel": post(MAKE),
    "release-export": post(MAKE),
    "export-cancel": post(MAKE),
    "export-file": get(READ),
    "references": Route(get=READ, post=MAKE),
    "rewards": Route(get=READ, post=MAKE),
    "judges": Route(get=READ, post=MAKE),
    "judge": get(READ),
    "judge-cancel": post(MAKE),
    "judge-choose": post(MAKE),
}
TASKS = {
    "stitchweb.make_release": MAKE,
    "stitchweb.make_export": MAKE,
    "stitchweb.make_judge": MAKE,
    "stitchweb.store_rewards": MAKE,
    "stitchweb.score_run": START,
    "stitchweb.order_queues": MAKE,
}
