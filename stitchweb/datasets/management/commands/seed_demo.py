"""manage.py seed_demo: synthetic content for screenshots, page tests and load."""

from __future__ import annotations

import time
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from stitchweb.datasets.demo import seed_labels
from stitchweb.datasets.teams import team_named
from stitchweb.runs.demo.store import SIZES, seed


class Command(BaseCommand):
    help = (
        "Adds synthetic teams, programs, finished runs and labels, all marked as such. large: 10,000 runs and 1,000,000 events."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--size", choices=sorted(SIZES), default="small")

    def handle(self, *, size: str, **options: Any) -> None:
        began = time.monotonic()
        seed(SIZES[size], self.stdout.write)
        project = seed_labels(team_named(""))
        self.stdout.write(f"{project.items.count()} candidates with labels of five reviewers, ten of them gold")
        self.stdout.write(f"Done in {time.monotonic() - began:.0f} s. Everything added is marked synthetic.")
        self.stdout.write("Sign in as one of its people: manage.py login_link ada@example.org")
