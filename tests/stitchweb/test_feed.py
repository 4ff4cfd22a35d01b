"""The stream over plain HTTP, and what a run says while nobody works on it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from gpu_runner.broker import TASK
from stitchweb.runs import services
from stitchweb.runs.history import view_of
from stitchweb.runs.models import Job, Run
from stitchweb.runs.sweeper import forget, release_everything, sweep
from stitchweb.teams.models import LoginLink
from stitchweb.teams.services import make_login_link, use_login_link
from tests.agents.loop_world import FakeHands, options
from tests.conftest import World, build_world
from tests.stitchweb.conveyor import Conveyor, Runner, heard

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def world() -> World:
    return build_world()


@pytest.fixture
def run(world: World) -> Run:
    return services.start_run(world.owner, world.revision, options())


def client_of(person: object) -> Client:
    client = Client()
    client.force_login(person)  # type: ignore[arg-type]
    return client


def test_what_is_new_comes_as_fragments_with_its_number(world: World, run: Run, conveyor: Conveyor) -> None:
    conveyor.run(FakeHands())
    last = Run.objects.get().last_seq
    answer = client_of(world.viewer).get(f"/runs/{run.pk}/events?after=3")
    assert (answer.status_code, answer["X-Seq"]) == (200, str(last))
    assert 'id="run-state"' in answer.content.decode()


def test_nothing_new_is_an_empty_answer(world: World, run: Run) -> None:
    answer = client_of(world.owner).get(f"/runs/{run.pk}/events?after=3")
    assert (answer.status_code, answer["X-Seq"], answer.content) == (204, "3", b"")


def test_an_outsider_gets_nothing(world: World, run: Run) -> None:
    assert client_of(world.outsider).get(f"/runs/{run.pk}/events").status_code == 404


def test_a_cursor_that_is_no_number_begins_at_the_start(world: World, run: Run) -> None:
    assert client_of(world.owner).get(f"/runs/{run.pk}/events?after=-1").status_code == 200


def test_a_step_that_no_runner_takes_says_so(run: Run, conveyor: Conveyor) -> None:
    conveyor.run()
    Job.objects.update(created_at=timezone.now() - timedelta(minutes=4), sent_at=timezone.now() - timedelta(minutes=4))
    assert sweep().jobs == 1
    assert view_of(run.pk).status.waiting.startswith("No runner for cpu is there.")
    heard("idle@host", ["run.cpu"])
    sweep()
    assert view_of(run.pk).status.waiting == "A runner is there, and has not taken the step yet."


def test_a_paused_run_says_that_it_is_paused_whatever_its_job_waits_for(run: Run, conveyor: Conveyor) -> None:
    conveyor.run()
    services.control(run.owner, run, "pause")
    conveyor.run()
    assert view_of(run.pk).status.waiting == "Paused by a person"
    Job.objects.update(created_at=timezone.now() - timedelta(minutes=4), sent_at=timezone.now())
    sweep()
    Runner(conveyor.sent(TASK)[-1]["job"]).claim()
    assert view_of(run.pk).status.waiting == "Paused by a person"


def test_a_run_that_nobody_drives_is_sent_again(run: Run, conveyor: Conveyor) -> None:
    conveyor.messages.clear()
    assert sweep().runs == 0
    Run.objects.update(poked_at=timezone.now() - timedelta(minutes=5))
    assert sweep().runs == 1
    conveyor.run()
    assert Run.objects.get().status == "analysing"


def test_a_request_whose_message_was_lost_is_taken_all_the_same(world: World, run: Run, conveyor: Conveyor) -> None:
    conveyor.run()
    services.control(world.owner, run, "cancel")
    conveyor.messages.clear()
    Run.objects.update(poked_at=timezone.now() - timedelta(minutes=5))
    sweep()
    conveyor.run()
    assert Run.objects.get().status == "cancelled"


def test_while_the_broker_is_away_nothing_is_lost(world: World, conveyor: Conveyor) -> None:
    conveyor.away = True
    services.start_run(world.owner, world.revision, options())
    Run.objects.update(poked_at=timezone.now() - timedelta(minutes=5))
    assert sweep().runs == 0
    conveyor.away = False
    assert sweep().runs == 1


def test_upkeep_forgets_old_links_alone(world: World) -> None:
    make_login_link(world.owner, life=timedelta(days=-8))
    fresh = make_login_link(world.owner)
    forget()
    assert LoginLink.objects.count() == 1
    assert use_login_link(fresh.removeprefix("/login/")).user == world.owner


def test_a_new_start_takes_up_what_the_last_one_left(world: World, run: Run, conveyor: Conveyor) -> None:
    conveyor.run()
    far = timezone.now() + timedelta(hours=1)
    Job.objects.update(state="claimed", lease_expires=far, created_at=timezone.now() - timedelta(minutes=1))
    Run.objects.update(lease="dead", lease_expires=far)
    release_everything()
    assert sweep().jobs == 1
    assert Run.objects.get().lease == ""
