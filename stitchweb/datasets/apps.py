"""The app of datasets: the team's own judge fills its places in reviews and beside runs; lost work is sent again."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig


class DatasetsConfig(AppConfig):
    name = "stitchweb.datasets"

    def ready(self) -> None:
        from stitchweb.core.leaving import add_parting
        from stitchweb.core.upkeep import hourly, often
        from stitchweb.datasets import judges
        from stitchweb.datasets.parting import PARTING
        from stitchweb.datasets.services import scoring
        from stitchweb.datasets.services.lost import send_lost
        from stitchweb.review import judge as beside_labels
        from stitchweb.review.signals import labelled
        from stitchweb.runs import judged as beside_runs
        from stitchweb.runs.signals import decided, ended

        beside_labels.find_by(judges.team_judge, judges.was_read)
        beside_runs.find_by(judges.judges_of)
        add_parting(PARTING)
        often.connect(send_lost)
        often.connect(scoring.send_unscored)
        hourly.connect(scoring.order_all)
        for signal in (decided, ended):
            signal.connect(scoring.score_soon)
        labelled.connect(_label)


def _label(item: Any, **_: Any) -> None:
    """A label more of an item that wants others may put it elsewhere in its queue."""
    from stitchweb.datasets.services.scoring import order_soon

    if item.taken < item.wanted:
        order_soon(item.project.team_id)
