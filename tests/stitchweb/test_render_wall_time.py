"""From when the page's clock counts what a run spends: from when its step is worked on, and never while nobody works."""

from __future__ import annotations

from typing import Any

import pytest

from agents.events import Event, View, fold_all
from stitchweb.runs.render import RunRenderer
from tests.stitchweb.views_for_tests import NoBlobs, story

BUDGET = {"attempts": 12, "wall_s": 900.0, "tokens": None, "money": None, "device_s": None}


def told(*lines: dict[str, Any]) -> View:
    """A view after these statuses, ten seconds apart from 100 s on, with 42.5 s spent."""
    events, _ = story()
    opening = [events[0], Event(seq=2, kind="usage.changed", at=90, payload={"usage": {"wall_s": 42.5}, "budget": BUDGET})]
    statuses = [Event(seq=3 + i, kind="run.status", at=100.0 + 10 * i, payload=line) for i, line in enumerate(lines)]
    return fold_all(View(), [*opening, *statuses])


BUILDING: dict[str, Any] = {"status": "building", "doing": "Building c1", "step": 4}


def test_it_counts_from_the_step_and_not_from_what_the_step_says_on_its_way() -> None:
    assert told(BUILDING).working_since == 100.0
    assert told(BUILDING, BUILDING | {"doing": "linking"}).working_since == 100.0
    assert told(BUILDING, BUILDING | {"step": 5}).working_since == 110.0


def test_waiting_for_a_runner_is_free() -> None:
    waits = BUILDING | {"waiting": "Waits for a free cpu runner."}
    assert told(waits).working_since is None
    assert told(waits, BUILDING).working_since == 110.0
    assert told(BUILDING, waits).working_since is None


@pytest.mark.parametrize("status", ["queued", "paused", "awaiting_approval", "finished", "cancelled", "failed"])
def test_a_run_that_rests_or_has_ended_counts_nothing(status: str) -> None:
    view = told(BUILDING, {"status": status, "step": 4})
    assert view.working_since is None
    assert "data-ticks" not in RunRenderer(41, NoBlobs()).run_panel("run-state", view)


def test_the_page_gets_what_is_spent_since_when_and_the_bound() -> None:
    panel = RunRenderer(41, NoBlobs()).run_panel("run-state", told(BUILDING))
    assert 'data-ticks data-spent="42.500" data-from="100.000" data-bound="900.000"' in panel
    assert "<b>42\xa0s</b>" in panel
