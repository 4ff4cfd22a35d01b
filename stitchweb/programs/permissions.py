"""What there is to do with programs and suites. Their pages are among those of runs."""

from __future__ import annotations

from stitchweb.core.permissions import TEAM, WORKERS, Action

SEE = Action(
    "program.see", "See a program, its text and its analysis; a suite", TEAM, "Not while one scores its candidates blind"
)
UPLOAD = Action("program.upload", "Upload a program, a suite or a new revision", WORKERS)
