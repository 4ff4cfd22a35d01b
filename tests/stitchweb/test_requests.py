"""What people ask of a run, told from the request to what came of it."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from agents.engineers.scripted import Scripted
from agents.events.telling import events_of
from agents.loop import apply
from agents.state import Control as Request
from agents.state import Steered
from stitchweb.runs import history, services
from stitchweb.runs.models import Event, Run
from tests.agents.loop_run import Run as Driven
from tests.agents.loop_world import FakeHands, options, profile, program, scripted_name, timing, todo
from tests.conftest import World, build_world
from tests.stitchweb.conveyor import Conveyor

pytestmark = pytest.mark.django_db(transaction=True)


def begin(world: World, **more: object) -> Run:
    engineer = Scripted(plans=[(todo(),)] * 2, codes=[program("one")] * 2)
    return services.start_run(world.owner, world.revision, options(scripted_name(engineer), **more))


def told(run: Run) -> list[tuple[str, str, str]]:
    return [(c.kind, c.state, c.text) for c in history.view_of(run.pk).controls.values()]


def test_an_edit_by_hand_is_told_with_its_title_and_then_as_the_candidate_it_became(conveyor: Conveyor) -> None:
    world = build_world()
    run = begin(world, approve_plan=True)
    conveyor.run(FakeHands())
    services.control(world.owner, run, "candidate", {"files": program("by hand"), "parent": None, "title": "Mine"})
    assert told(run) == [("candidate", "requested", "Mine")]
    conveyor.run(FakeHands())
    assert told(run) == [("candidate", "applied", "Mine, as c1")]


def test_a_run_again_from_a_candidate_tries_it_before_the_plan(conveyor: Conveyor) -> None:
    world = build_world()
    run = begin(world)
    conveyor.run(FakeHands())
    again = services.run_again(world.owner, run, program("taken along"), "c1 of run 1")
    conveyor.run(FakeHands(time=timing(2.0)))
    first = Run.objects.get(pk=again.pk).load().candidates[0]
    assert (first.author, first.title, first.verified) == ("person", "c1 of run 1", True)


def test_a_hint_that_nobody_reads_says_so_when_it_is_taken() -> None:
    run = Driven().planned("a")
    hint = Request(id="1", kind="hint", by="Ada", data={"text": "use tiles"})
    outcome = Steered(step=run.state.step, at=run.at, control=hint)
    for engineer, heeded in (("offline", False), ("scripted", True)):
        before = run.state.model_copy(
            update={"options": run.state.options.model_copy(update={"planner": engineer, "coder": engineer})}
        )
        [event] = events_of(before, outcome, apply(before, outcome), run.at, 0)
        assert event.payload["state"] == "applied"
        assert ("reads no text" in event.payload["text"]) is not heeded


def test_a_branch_is_refused_once_nothing_is_written_any_more() -> None:
    run = Driven().planned("a").attempt(1.5)
    assert run.state.stop_cause is not None
    branch = Request(id="1", kind="branch", by="Ada", data={"from": "c1"})
    outcome = Steered(step=run.state.step, at=run.at, control=branch)
    [event] = events_of(run.state, outcome, apply(run.state, outcome), run.at, 0)
    assert event.payload["state"] == "refused"
    assert "new run can start from this one" in event.payload["text"]


def test_a_run_that_nobody_has_begun_is_not_said_to_be_analysed(conveyor: Conveyor) -> None:
    run = begin(build_world())
    assert history.view_of(run.pk).status.doing == ""
    conveyor.run()
    assert history.view_of(run.pk).status.doing == "Analysing the program"


def test_a_profile_is_asked_for_by_a_button_and_made(conveyor: Conveyor, client: Client) -> None:
    world = build_world()
    client.force_login(world.owner)
    run = begin(world, approve_plan=True)
    conveyor.run(FakeHands())
    services.control(world.owner, run, "candidate", {"files": program("by hand"), "parent": None, "title": "Mine"})
    conveyor.run(FakeHands(time=timing(2.0)))
    page = reverse("run", args=[run.pk])
    assert 'name="profile" value="c1"' in client.get(page, {"candidate": "c1"}).content.decode()
    made = len(profiles(run))
    client.post(reverse("run-control", args=[run.pk]), {"profile": "c1"})
    assert told(run)[-1][:2] == ("profile", "requested")
    assert "asked by" in client.get(page, {"candidate": "c1"}).content.decode()
    conveyor.run(FakeHands(time=timing(2.0), profile=profile().model_copy(update={"finding": "another look"})))
    assert told(run)[-1] == ("profile", "applied", "c1")
    assert len(profiles(run)) == made + 1


def profiles(run: Run) -> list[Event]:
    return list(Event.objects.filter(run=run, kind="profile.done"))
