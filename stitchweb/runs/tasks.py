"""The agent worker's tasks. Thin: a message names a run, the orchestrator does the rest."""

from __future__ import annotations

from stitchweb.celery import app
from stitchweb.runs.dispatch import ADVANCE, THINK
from stitchweb.runs.orchestrator import advance
from stitchweb.runs.thinking import think_step


@app.task(name=ADVANCE)
def advance_run(run_id: int) -> None:
    advance(run_id)


@app.task(name=THINK)
def think_one(job_id: int) -> None:
    think_step(job_id)
