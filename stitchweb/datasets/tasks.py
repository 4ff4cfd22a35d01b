"""The agent worker's tasks. Thin: a message names a row; what came of it stands there."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from agents.reward import Parameters
from stitchweb.celery import app
from stitchweb.datasets.models import Export, Judge, Release
from stitchweb.datasets.progress import Refused
from stitchweb.datasets.services.collect import collect
from stitchweb.datasets.services.judging import MAKE_JUDGE, make_judge
from stitchweb.datasets.services.releases import MAKE_EXPORT, MAKE_RELEASE, make_export, make_release
from stitchweb.datasets.services.rewards import STORE_REWARDS, store_rewards
from stitchweb.datasets.services.scoring import ORDER_QUEUES, SCORE_RUN, order_team, score_run
from stitchweb.runs.models import Run
from stitchweb.teams.models import Team


@app.task(name=MAKE_RELEASE)
def release_task(pk: int) -> None:
    row = Release.objects.select_related("team").filter(pk=pk).first()
    if row:
        with suppress(Refused):  # the row says why
            make_release(row)


@app.task(name=MAKE_EXPORT)
def export_task(pk: int) -> None:
    row = Export.objects.select_related("release__team").filter(pk=pk).first()
    if row:
        with suppress(Refused):
            make_export(row)


@app.task(name=MAKE_JUDGE)
def judge_task(pk: int) -> None:
    row = Judge.objects.select_related("team").filter(pk=pk).first()
    if row:
        with suppress(Refused):
            make_judge(row)


@app.task(name=STORE_REWARDS)
def rewards_task(pk: int, preset: str, parameters: dict[str, Any]) -> None:
    team = Team.objects.filter(pk=pk).first()
    if team:
        collect(team)
        store_rewards(team, preset=preset, parameters=Parameters.model_validate(parameters))


@app.task(name=SCORE_RUN)
def score_task(pk: int) -> None:
    run = Run.objects.select_related("team", "revision").filter(pk=pk).first()
    if run:
        score_run(run)


@app.task(name=ORDER_QUEUES)
def order_task(pk: int) -> None:
    order_team(pk)
