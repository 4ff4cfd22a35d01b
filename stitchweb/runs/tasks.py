"""The agent worker's tasks. Thin: a message names a run, the orchestrator does the rest."""

from __future__ import annotations

from stitchweb.celery import app
from stitchweb.runs.dispatch import ADVANCE
from stitchweb.runs.orchestrator import advance


@app.task(name=ADVANCE)
def advance_run(run_id: int) -> None:
    advance(run_id)
