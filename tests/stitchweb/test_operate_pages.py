"""Operators' pages: runners, queue, teams; and that quotas hold."""

from __future__ import annotations

import html
import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from agents.state import Options
from gpu_runner.contracts import PROTOCOLS
from stitchweb.runs import accounts, hosts, jobbook, services
from stitchweb.runs.models import Job, JobState, JoinToken, Quota, Run, Runner
from stitchweb.runs.quotas import Used, used
from stitchweb.teams.models import User
from tests.conftest import World
from tests.stitchweb.conveyor import heard

pytestmark = pytest.mark.django_db
OPTIONS = Options(protocol=PROTOCOLS["quick"])


@pytest.fixture
def operator(world: World) -> Client:
    User.objects.filter(pk=world.outsider.pk).update(is_staff=True)
    client = Client()
    client.force_login(world.outsider)
    return client


def words(answer: Any) -> str:
    return html.unescape(" ".join(re.sub(r"<[^>]+>", " ", answer.content.decode()).split()))


@pytest.mark.parametrize("path", ["runners/", "queue/", "teams/", "teams/kernel-crew/", "runners/change"])
def test_nobody_else_finds_them(world: World, path: str) -> None:
    client = Client()
    client.force_login(world.owner)
    assert client.get(f"/operate/{path}").status_code in (404, 405)
    assert client.post(f"/operate/{path}").status_code in (404, 405)


def test_a_runner_shows_what_it_is_how_it_is_and_what_went_wrong(operator: Client, world: World) -> None:
    assert "No runner yet." in words(operator.get("/operate/runners/"))
    secret = hosts.admit("gpu0@far", ["run.sm_90"])
    about = {"name": "NVIDIA H200", "driver": "570.1", "torch": "2.13.0", "memory_mib": 143771, "sandbox": "bubblewrap"}
    hosts.present(hosts.known("gpu0@far", secret), about, "", {"gpu": 0.5, "gpu_memory": 0.25})
    hosts.failed("gpu0@far", "No compiler: install nvcc.")
    said = words(operator.get("/operate/runners/"))
    for word in ("gpu0@far", "idle", "run.sm_90", "NVIDIA H200", "143,771 MiB", "570.1", "2.13.0", "GPU 50 %, its memory 25 %",
                 "Last error", "No compiler: install nvcc."):  # fmt: skip
        assert word in said
    hosts.present(hosts.known("gpu0@far", secret), about, "The sandbox does not start here.", {})
    assert "unwell" in words(operator.get("/operate/runners/"))
    assert "The sandbox does not start here." in words(operator.get("/operate/runners/"))


def test_the_page_asks_as_much_of_one_runner_as_of_many(
    operator: Client, world: World, django_assert_num_queries: Any, django_assert_max_num_queries: Any
) -> None:
    with django_assert_max_num_queries(20) as first:
        operator.get("/operate/runners/")
    for number in range(20):
        heard(f"r{number}", ["run.cpu"])
    with django_assert_num_queries(len(first)):
        operator.get("/operate/runners/")


def test_each_change_is_done_and_said(operator: Client, world: World) -> None:
    heard("one", ["run.cpu"])
    for action, state, said in (
        ("drain", "draining", "one ends what it does"), ("resume", "active", "takes jobs again"),
        ("quarantine", "quarantined", "one is quarantined."),
    ):  # fmt: skip
        answer = operator.post(
            "/operate/runners/change", {"name": "one", "action": action, "reason": "It smells."}, follow=True
        )
        assert said in words(answer)
        assert Runner.objects.get().state == state
    assert "It smells." in words(operator.get("/operate/runners/"))
    assert "is removed" in words(operator.post("/operate/runners/change", {"name": "one", "action": "remove"}, follow=True))
    assert not Runner.objects.exists()
    for name, action in (("one", "drain"), ("one", "dance")):
        answer = operator.post("/operate/runners/change", {"name": name, "action": action}, follow=True)
        assert "There is no" in words(answer)


def test_the_line_that_joins_is_shown_once_and_its_token_is_good(
    operator: Client, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accounts, "check", lambda: None)
    answer = operator.post("/operate/runners/", {"queues": "run.cpu run.sm_90"})
    assert answer.headers["Cache-Control"] == "no-store"
    [token] = re.findall(r"gpu_runner\.serve --join http://127\.0\.0\.1:8000 (\S{43})", words(answer))
    row = JoinToken.objects.get()
    assert (row.token_sha256, row.queues) == (hosts.digest(token), ["run.cpu", "run.sm_90"])
    assert token not in words(operator.get("/operate/runners/"))
    answer = operator.post("/operate/runners/", {"queues": "agents"})
    assert answer.status_code == 422
    assert "There is no queue 'agents'" in words(answer)


def test_a_broker_that_keeps_nobody_apart_makes_no_line(operator: Client, world: World, settings: Any) -> None:
    settings.BROKER_URL = "unix:///nowhere"
    answer = operator.post("/operate/runners/", {"queues": "run.cpu"})
    assert answer.status_code == 422
    assert "Set REDIS_URL" in words(answer)
    assert not JoinToken.objects.exists()


def test_the_queue_says_what_waits_why_and_how_long(operator: Client, world: World) -> None:
    assert "No job is open." in words(operator.get("/operate/queue/"))
    first, second = jobbook.create_analysis(world.revision), jobbook.create_analysis(world.revision)
    assert words(operator.get("/operate/queue/")).count("No runner for cpu is there") == 2
    heard("one", ["run.cpu"])
    Job.objects.filter(pk=first.pk).update(state=JobState.CLAIMED, worker="one", claims=2)
    said = words(operator.get("/operate/queue/"))
    assert "one is at it given out 2 times" in said
    assert "1 before it" in said
    begun = timezone.now() - timedelta(hours=2)
    Job.objects.filter(pk=second.pk).update(created_at=begun)
    assert f"since {begun:%H:%M:%S} UTC" in words(operator.get("/operate/queue/"))
    run = services.create_run(world.owner, world.revision, OPTIONS)
    assert f"run {run.pk} of Kernel crew, queued" in words(operator.get("/operate/queue/"))


def test_use_is_told_by_team_and_month(operator: Client, world: World) -> None:
    run = services.create_run(world.owner, world.revision, OPTIONS)
    Run.objects.filter(pk=run.pk).update(device_s=90.0, tokens=12345, money=1.5)
    old = services.create_run(world.owner, world.revision, OPTIONS)
    Run.objects.filter(pk=old.pk).update(device_s=5.0, status="finished", created_at=timezone.now() - timedelta(days=40))
    assert used([world.team.pk]) == {world.team.pk: Used(1, 90.0, 12345, 1.5, 1)}
    said = words(operator.get("/operate/teams/"))
    assert "Kernel crew 4 1" in said
    assert "12,345" in said
    assert "$1.50" in said


@pytest.mark.parametrize(
    ("name", "most", "said"),
    [
        ("runs", "1", "1 runs under way at once"), ("device_s", "90", "90 seconds of runners"),
        ("tokens", "500", "500 tokens"), ("money", "0.5", "0.5 dollars"),
    ],
)  # fmt: skip
def test_a_quota_that_is_used_up_starts_no_further_run_and_says_so(
    operator: Client, world: World, name: str, most: str, said: str
) -> None:
    run = services.start_run(world.owner, world.revision, OPTIONS)
    Run.objects.filter(pk=run.pk).update(device_s=90.0, tokens=500, money=0.5)
    assert operator.post("/operate/teams/kernel-crew/", {name: most}).status_code == 302
    with pytest.raises(services.TooManyRuns, match=f"used its quota of {re.escape(said)}"):
        services.start_run(world.owner, world.revision, OPTIONS)
    operator.post("/operate/teams/kernel-crew/", {name: ""})
    services.start_run(world.owner, world.revision, OPTIONS)


@pytest.mark.parametrize("value", ["-1", "many", "nan", "inf", "9" * 40])
@pytest.mark.parametrize("name", ["runs", "device_s", "tokens", "money"])
def test_a_quota_that_cannot_be_is_refused_and_keeps_what_was_typed(
    operator: Client, world: World, name: str, value: str
) -> None:
    answer = operator.post("/operate/teams/kernel-crew/", {name: value})
    assert answer.status_code == 422
    assert value in answer.content.decode()
    assert not Quota.objects.exists()
