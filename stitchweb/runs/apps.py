"""The app of runs: it says what goes with a team."""

from __future__ import annotations

from django.apps import AppConfig


class RunsConfig(AppConfig):
    name = "stitchweb.runs"

    def ready(self) -> None:
        from stitchweb.core.leaving import add_parting
        from stitchweb.runs.parting import PARTING

        add_parting(PARTING)
