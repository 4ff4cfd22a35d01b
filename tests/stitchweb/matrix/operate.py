"""What who runs the site looks at, and what watches it."""

from __future__ import annotations

from stitchweb.runs import hosts
from tests.stitchweb.matrix import Visit, Visits, whom
from tests.stitchweb.matrix.stage import Stage


def visits(stage: Stage) -> Visits:
    hosts.admit("one", ["run.cpu"])
    return {
        "operate": Visit(),
        "operate-runners": Visit(data={"queues": "run.cpu"}, refused=()),
        "operate-runner": Visit(data={"name": "one", "action": "drain"}),
        "operate-queue": Visit(),
        "operate-teams": Visit(),
        "operate-quota": Visit({"slug": stage.team.slug}, data={"runs": "3"}),
        "metrics": Visit(meets=whom()),
        "healthz": Visit(),
        "readyz": Visit(away=True),
    }
