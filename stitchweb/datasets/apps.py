"""The app of datasets: the place of a judge in reviews is filled by the team's own; work that was lost is sent again."""

from __future__ import annotations

from django.apps import AppConfig


class DatasetsConfig(AppConfig):
    name = "stitchweb.datasets"

    def ready(self) -> None:
        from stitchweb.core.leaving import add_parting
        from stitchweb.core.upkeep import often
        from stitchweb.datasets.judges import team_judge
        from stitchweb.datasets.parting import PARTING
        from stitchweb.datasets.services.lost import send_lost
        from stitchweb.review.judge import find_by

        find_by(team_judge)
        add_parting(PARTING)
        often.connect(send_lost)
