"""What there is to do with datasets, judges and rewards, and which page and task does it."""

from __future__ import annotations

from stitchweb.core.permissions import MANAGERS, Action

READ = Action(
    "datasets.read", "Read a team's releases, judges and rewards, and download exports", MANAGERS,
    "Not while candidates of its review projects may still come to them for scoring",
)  # fmt: skip
MAKE = Action(
    "datasets.make", "Make releases and exports, train and choose judges, set the reward, place references", MANAGERS,
    "Not while candidates of its review projects may still come to them for scoring",
)  # fmt: skip

TASKS = {"stitchweb.make_release": MAKE, "stitchweb.make_export": MAKE}
