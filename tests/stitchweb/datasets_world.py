"""A team with labels for tests: the demo's generator, small; and a release of it."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from django.core.management import call_command

from stitchweb.datasets.configs import CONFIGS
from stitchweb.datasets.demo import seed_labels
from stitchweb.datasets.models import Release
from stitchweb.datasets.services.releases import make_release, request_release
from stitchweb.teams.models import Team
from tests.conftest import World


def labelled(world: World, candidates: int = 24, references: int = 8) -> Team:
    """The world's team with labels of five raters, final labels and gold items."""
    seed_labels(world.team, candidates, references)
    return world.team


def released(team: Team, name: str = "r1") -> Release:
    row = request_release(None, team, name, send=False)
    make_release(row, lambda *told: None)
    row.refresh_from_db()
    return row


def exported(team: Team, name: str, folder: Path, form: str = "jsonl", configs: Any = CONFIGS) -> Path:
    for config in configs:
        call_command(
            "export_dataset", release=name, team=team.slug, config=config, format=form, out=folder / config,
            stdout=io.StringIO(),
        )  # fmt: skip
    return folder
