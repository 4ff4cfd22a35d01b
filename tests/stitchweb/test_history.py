"""Reading what happened: what one fold came through serves the next one."""

from __future__ import annotations

import pytest
from django.db import transaction

from agents.events import Event as EventContract
from agents.events import View
from stitchweb.runs import events, history, services
from stitchweb.runs.models import Run
from tests.agents.loop_world import options
from tests.conftest import World

pytestmark = pytest.mark.django_db


def test_a_long_run_is_folded_once_for_all_pages_that_come_back(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are all at another event, and none is where the snapshot is."""
    run = services.start_run(world.owner, world.revision, options())
    monkeypatch.setattr(history, "PAGE", 10)
    told = [EventContract(seq=1, kind="log.lines", at=1.0, payload={"stream": "s", "text": f"line {n}"}) for n in range(95)]
    with transaction.atomic():
        last = events.append(events.lock(run.pk), told)
    history.refresh_snapshot(Run.objects.get(pk=run.pk))
    marks, read = dict[int, View](), list[int]()
    events_after = history.events_after
    monkeypatch.setattr(history, "events_after", lambda pk, seq, limit=10: read.append(limit) or events_after(pk, seq, limit))
    history.view_of(run.pk, last - 1, marks)
    assert len(read) > 5, "from the beginning"
    for seq in (last - 1, last - 2, 41, 7, last):
        read.clear()
        view = history.view_of(run.pk, seq, marks)
        assert sum(read) <= 20, "from the nearest mark"
        assert view == history.view_of(run.pk, seq)
