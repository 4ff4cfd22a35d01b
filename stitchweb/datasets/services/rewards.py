"""The reward of every record, stored with its inputs and parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from agents.reward import PRESETS, Inputs, NotRated, Parameters, reward
from agents.rubric import DIMENSIONS, Given, aggregate
from stitchweb.datasets.models import Record
from stitchweb.datasets.progress import Tell, silent
from stitchweb.datasets.services.collect import changed as touched
from stitchweb.review.models import Adjudication, Rating, Review
from stitchweb.runs import dispatch
from stitchweb.teams.models import Team

STORE_REWARDS = "stitchweb.store_rewards"
AT_ONCE = 1000
Label = tuple[dict[str, int | None], str]


def labels_of(team: Team) -> dict[str, Label]:
    """Levels and hack level of each labelled content: as settled, else what the labels come to. Three queries."""
    levels: dict[int, dict[str, int | None]] = {}
    rows = Rating.objects.filter(review__item__project__team=team, review__superseded=False).order_by()
    for review, dimension, level in rows.values_list("review", "dimension", "level").iterator(chunk_size=5000):
        levels.setdefault(review, {})[dimension] = level
    given: dict[str, list[Given]] = {}
    reviews = Review.objects.filter(item__project__team=team, superseded=False).order_by("pk")
    for pk, sha256, hack in reviews.values_list("pk", "item__sha256", "hack_level").iterator(chunk_size=5000):
        given.setdefault(sha256, []).append(Given(levels.get(pk, {}), hack))
    finals: dict[str, Given] = {}
    settled = Adjudication.objects.filter(item__project__team=team, superseded=False).order_by("pk")
    for sha256, some, hack in settled.values_list("item__sha256", "levels", "hack_level"):
        finals[sha256] = Given(some, hack)
    made = {sha: aggregate(given.get(sha, []), finals.get(sha)) for sha in given.keys() | finals.keys()}
    return {sha: (one.level, one.hack_level) for sha, one in made.items()}


def store_rewards(team: Team, tell: Tell = silent, preset: str = "", parameters: Parameters | None = None) -> int:
    """Compute the reward of all records by the preset (that of the stored ones unless another is named; the paper's form at
    first) and store it with what it was computed from. How many changed."""
    if not preset:
        preset, parameters = preset_of(team)
    parameters = parameters or PRESETS[preset].parameters
    labels = labels_of(team)
    stored = parameters.model_dump(mode="json")
    changed: list[Record] = []
    count = 0
    rows = Record.objects.filter(team=team).only("sha256", "inputs", "parameters", "preset", "reward").order_by("pk")
    for at, row in enumerate(rows.iterator(chunk_size=AT_ONCE)):
        if at % AT_ONCE == 0:
            tell("Computing rewards", at)
        inputs = inputs_of(row.inputs, labels.get(row.sha256)).model_dump(mode="json")
        value = value_of(inputs, parameters)
        if (row.inputs, row.parameters, row.preset, row.reward) != (inputs, stored, preset, value):
            row.inputs, row.parameters, row.preset, row.reward = inputs, stored, preset, value
            changed.append(row)
        if len(changed) >= AT_ONCE:
            count += _store(team, changed)
            changed = []
    return count + _store(team, changed)


def request_rewards(team: Team, preset: str, by: Parameters) -> None:
    """Have the agent worker store all rewards of the team by these parameters."""
    stored = by.model_dump(mode="json")
    dispatch.send_on_commit(STORE_REWARDS, dispatch.AGENTS_QUEUE, pk=team.pk, preset=preset, parameters=stored)


@transaction.atomic
def _store(team: Team, rows: list[Record]) -> int:
    Record.objects.bulk_update(rows, ["inputs", "parameters", "preset", "reward"], batch_size=200)
    if rows:
        touched(team)
    return len(rows)


def preset_of(team: Team) -> tuple[str, Parameters]:
    """What the team's rewards are stored by."""
    row = Record.objects.filter(team=team).exclude(preset="").values_list("preset", "parameters").first()
    return (row[0], Parameters.model_validate(row[1])) if row else ("paper", PRESETS["paper"].parameters)


def inputs_of(stored: Mapping[str, Any], label: Label | None) -> Inputs:
    """A record's inputs with the labels of now."""
    levels, hack = label or ({}, "")
    return Inputs.model_validate(
        {**stored, "levels": {key: levels[key] for key in DIMENSIONS if key in levels}, "hack_level": hack}
    )


def value_of(inputs: Mapping[str, Any], parameters: Parameters) -> float | None:
    """The reward, None where it rests on levels or a time that are not there."""
    try:
        return reward(Inputs.model_validate(inputs), parameters)
    except (NotRated, ValueError):
        return None
