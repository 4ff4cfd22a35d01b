"""Whatever is lost on the way and however often a page comes back, it has seen every event once and in order."""

from __future__ import annotations

import json

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.events import Event as EventContract
from stitchweb.runs import events, history, services, stream
from stitchweb.runs.models import Run
from stitchweb.runs.stream import Reader
from tests.agents.loop_world import options
from tests.conftest import World

ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("happens"), st.integers(1, 12)),
        st.tuples(st.just("taken"), st.just(0)),  # a batch arrives and is applied
        st.tuples(st.just("lost"), st.just(0)),  # a batch is sent and never arrives; the page reconnects where it was
        st.tuples(st.just("server dies"), st.just(0)),  # another process, with nothing remembered
    ),
    max_size=20,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(actions=ACTIONS, page=st.integers(1, 7), since=st.integers(0, 3))
def test_a_page_sees_every_event_once_and_in_order(world: World, actions: list[tuple[str, int]], page: int, since: int) -> None:
    run = services.start_run(world.owner, world.revision, options())
    first = history.view_of(run.pk).seq
    reader, cursor, seen = Reader(run.pk), min(since, first), list(range(1, min(since, first) + 1))

    def take(applied: bool) -> bool:
        nonlocal cursor
        made = reader._make(cursor, reader._views.get(cursor))
        if made is None:
            return False
        batch, reader._views[batch.upto] = made
        message = json.loads(batch.text)
        told = json.loads(message["html"])
        assert (batch.after, message["seq"], len(told)) == (cursor, told[-1], min(page, len(told)))
        if applied:
            seen.extend(told)
            cursor = message["seq"]
        return True

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream, "PAGE", page)
        patch.setattr(stream, "fragments", lambda pk, before, after, told, blobs: json.dumps([e.seq for e in told]))
        for action, count in actions:
            if action == "happens":
                told = [EventContract(seq=1, kind="log.lines", at=1.0, payload={"stream": "s", "text": "x"})] * count
                with transaction.atomic():
                    events.append(events.lock(run.pk), told)
            elif action == "server dies":
                reader = Reader(run.pk)
            else:
                take(applied=action == "taken")
        while take(applied=True):
            pass
    assert seen == list(range(1, Run.objects.get(pk=run.pk).last_seq + 1))
