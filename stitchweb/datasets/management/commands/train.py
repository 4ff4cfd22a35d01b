"""manage.py train: a training run by a recipe, on the rows of a release."""

from __future__ import annotations

import shlex
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from django.core.files.storage import default_storage
from django.core.management.base import BaseCommand, CommandError, CommandParser

from agents.training import command
from agents.training.driver import Given
from agents.training.recipe import BadRecipe, Recipe, read
from stitchweb.datasets.configs import CONFIGS
from stitchweb.datasets.models import Release
from stitchweb.datasets.progress import Refused
from stitchweb.datasets.services.releases import export_config
from stitchweb.datasets.teams import team_named
from stitchweb.teams.models import Team


class Command(BaseCommand):
    help = "Trains a judge or a Coder by a recipe; the reward service is started and ended with it. Ctrl-C ends everything."

    def add_arguments(self, parser: CommandParser) -> None:
        command.add_arguments(parser)
        parser.add_argument("--release", default="", help="name of the release whose training rows are used")
        parser.add_argument("--team", default="", help="slug of the release's team, by default the demo team")

    def handle(self, *, release: str, team: str, **options: Any) -> None:
        given = Namespace(**options)
        if absent := command.missing():
            raise CommandError(absent)
        if release and given.data:
            raise CommandError("--release and --data both say where rows come from; leave one out.")
        if team and not release:
            raise CommandError("--team says whose release is meant; name it with --release.")
        judge, data = command.judge_of(given), given.data
        try:
            recipe = read(given.recipe)
            recipe = recipe.small() if given.smoke else recipe
            if release:
                owner = team_named(team)
                data = self._exported(owner, release, recipe, given.out)
                judge = judge or self._judge(owner, recipe, given.out)
        except (BadRecipe, Refused, OSError) as error:
            raise CommandError(str(error)) from None
        words = shlex.join(["python", "manage.py", *sys.argv[1:]])
        status = command.carried_out(Given(recipe, given.out, data, judge, given.seed, given.cpu, words, self.stderr.write))
        if status:
            sys.exit(status)

    def _exported(self, team: Team, name: str, recipe: Recipe, out: Path) -> Path:
        """The release's configs that the recipe uses, as files beside `out`. Refused, OSError."""
        row = Release.objects.filter(team=team, name=name).first()
        if row is None:
            names = ", ".join(Release.objects.filter(team=team).values_list("name", flat=True)[:10]) or "none"
            raise Refused(f"The team {team.slug} has no release {name!r}. It has: {names}.")
        folder = out.with_name(f"{out.name}-data")
        for config in dict.fromkeys(stage.data for stage in recipe.stages):
            if config not in CONFIGS:
                raise Refused(f"The recipe {recipe.name} wants the config {config!r}, which releases do not have.")
            counts = export_config(row, config, "jsonl", folder / config)
            self.stderr.write(f"{folder / config}: {counts['train']} rows to train on")
        return folder

    def _judge(self, team: Team, recipe: Recipe, out: Path) -> tuple[str, ...]:
        """The team's own judge, where a reward rests on levels and it may score. Refused where one is chosen that cannot be
        used outside of the site; empty where none is chosen."""
        if not any(stage.reward and stage.reward.needs_levels for stage in recipe.stages):
            return ()
        row = team.judges.filter(active=True).first()
        if row is None:
            return ()
        if row.gate != "score" or row.kind != "local":
            why = "its key does not leave the site" if row.kind == "model" else f"it may only {row.gate}"
            raise Refused(f"The team's {row} cannot shape this reward: {why}. Name a judge with --judge or --judge-model.")
        path = out.with_name(f"{out.name}-judge.json")
        path.parent.mkdir(parents=True, exist_ok=True)
        with default_storage.open(row.file) as stored:
            path.write_bytes(stored.read())
        return ("--judge", str(path.resolve()))
