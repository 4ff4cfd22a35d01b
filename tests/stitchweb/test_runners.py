"""Runners on the status page: one without a job shows as soon as it is there, and for how long one was not heard of."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from stitchweb.runs import hosts, runners
from stitchweb.runs.models import Job, JobState, Runner
from tests.conftest import World
from tests.stitchweb.conveyor import heard

pytestmark = pytest.mark.django_db


def shown(world: World) -> str:
    """The rows of the runners' table, a word after the other."""
    client = Client()
    client.force_login(world.viewer)
    html = client.get("/status/").content.decode()
    section = html[html.index('id="h-r"') : html.index('id="h-a"')]
    return " ".join(re.sub(r"<[^>]+>", " ", section).split())


def did(world: World, name: str, state: JobState, ago: float) -> Job:
    claimed = timezone.now() - timedelta(seconds=ago)
    return Job.objects.create(
        revision=world.revision, kind="analyse", queue="run.cpu", task={}, worker=name, state=state, claimed_at=claimed,
        done_at=claimed + timedelta(seconds=2) if state == JobState.DONE else None,
    )  # fmt: skip


def test_a_runner_is_working_idle_or_not_heard_of(world: World) -> None:
    assert "No runner was heard of" in shown(world)
    heard("quiet", ["run.cpu", "build.cuda"])
    heard("busy", ["run.cpu"])
    did(world, "busy", JobState.DONE, ago=60)
    did(world, "busy", JobState.CLAIMED, ago=5)
    did(world, "old", JobState.DONE, ago=3600)
    rows = {(row.name, row.queue): row for row in runners.recent()}
    assert {key: row.state for key, row in rows.items()} == {
        ("quiet", "run.cpu"): "idle",
        ("quiet", "build.cuda"): "idle",
        ("busy", "run.cpu"): "working",
        ("old", "run.cpu"): "not heard of",
    }
    assert (rows["busy", "run.cpu"].done, rows["busy", "run.cpu"].mean_s) == (1, 2.0)

    assert "old run.cpu not heard of 1 0 2" in shown(world)
    assert "quiet build.cuda idle 0 0" in shown(world)


def test_a_runner_that_fell_silent_is_not_idle_and_is_forgotten_in_the_end(world: World) -> None:
    heard("gone", ["run.cpu"])
    Runner.objects.update(heard_at=timezone.now() - runners.PRESENT)
    assert [row.state for row in runners.recent()] == ["not heard of"]
    Runner.objects.update(heard_at=timezone.now() - runners.SHOWN)
    assert runners.recent() == []
    runners.forget()
    assert Runner.objects.count() == 1
    Runner.objects.update(heard_at=timezone.now() - runners.KEPT)
    runners.forget()
    assert not Runner.objects.exists()


def test_a_runner_that_was_just_started_is_starting_until_it_says_something(world: World) -> None:
    hosts.admit("cpu@here", ["run.cpu"])
    assert runners.there() == {"run.cpu": False}
    [row] = runners.recent()
    assert row.state == "starting"
    assert "cpu@here run.cpu starting" in shown(world)
    heard("cpu@here", ["run.cpu"])
    assert runners.there() == {"run.cpu": True}
    assert [row.state for row in runners.recent()] == ["idle"]


def test_a_runner_that_never_came_is_not_starting_for_ever(world: World) -> None:
    hosts.admit("cpu@here", ["run.cpu"])
    Runner.objects.update(heard_at=timezone.now() - runners.STARTING)
    assert runners.there() == {}
    assert [row.state for row in runners.recent()] == ["not heard of"]


def test_a_runner_beside_one_that_starts_is_there(world: World) -> None:
    heard("old", ["run.cpu"])
    hosts.admit("new", ["run.cpu", "run.sm_90"])
    assert runners.there() == {"run.cpu": True, "run.sm_90": False}


def test_a_job_that_a_starting_runner_took_makes_it_one_that_is_there(world: World) -> None:
    hosts.admit("quick", ["run.cpu"])
    runners.works(did(world, "quick", JobState.CLAIMED, ago=0))
    assert runners.there() == {"run.cpu": True}
    assert [row.state for row in runners.recent()] == ["working"]


def test_the_form_says_that_a_runner_is_starting(world: World) -> None:
    hosts.admit("cpu@here", ["run.cpu"])
    client = Client()
    client.force_login(world.owner)
    page = client.get("/upload/").content.decode()
    assert ">cpu, runner starting</option>" in page
    assert ">sm_90, no runner now</option>" in page
