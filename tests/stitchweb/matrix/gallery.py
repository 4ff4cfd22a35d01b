"""The gallery of cheats."""

from __future__ import annotations

from tests.stitchweb.matrix import Visit, Visits
from tests.stitchweb.matrix.stage import Stage


def visits(stage: Stage) -> Visits:
    return {"gallery": Visit(), "gallery-class": Visit({"name": "output_cache"})}
