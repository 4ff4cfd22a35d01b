"""Tokens: shown once, kept as a digest, bounded by scopes, time, number of requests and their person."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client
from django.utils import timezone

from stitchweb.api.models import ApiToken
from stitchweb.api.tokens import MOST, TokenRefused, make_token
from tests.conftest import World
from tests.stitchweb.api_world import Caller, caller

FORM = {"name": "laptop", "scope": ["read", "run"], "days": "30"}


@pytest.fixture
def owner(client: Client, world: World) -> Client:
    client.force_login(world.owner)
    return client


def test_a_token_is_shown_once_and_kept_as_a_digest(owner: Client, world: World) -> None:
    page = owner.post("/settings/tokens/", FORM)
    secret = re.search(r'id="secret">(stw_[\w-]{43})<', page.content.decode())
    assert secret
    assert "no-store" in page["Cache-Control"]
    row = ApiToken.objects.get()
    assert row.scopes == ["read", "run"]
    assert timedelta(days=29) < row.expires_at - timezone.now() < timedelta(days=31)
    assert secret[1] not in str(row.__dict__)
    assert secret[1] not in owner.get("/settings/tokens/").content.decode()
    assert Caller(secret[1]).get("teams")[0] == 200
    row.refresh_from_db()
    assert row.last_used_at


@pytest.mark.parametrize("change", [{"scope": []}, {"scope": ["everything"]}, {"days": "9999"}, {"days": "x"}, {"name": " "}])
def test_what_makes_no_token_is_said(owner: Client, change: dict[str, Any]) -> None:
    page = owner.post("/settings/tokens/", FORM | change)
    assert page.status_code == 422
    assert b'role="alert"' in page.content
    assert not ApiToken.objects.exists()


def test_names_are_unique_and_tokens_are_bounded(owner: Client, world: World) -> None:
    assert owner.post("/settings/tokens/", FORM).status_code == 200
    assert owner.post("/settings/tokens/", FORM).status_code == 422
    for number in range(MOST - 1):
        make_token(world.owner, f"t{number}", ["read"], 7)
    with pytest.raises(TokenRefused):
        make_token(world.owner, "one more", ["read"], 7)


def test_a_scope_that_is_missing_refuses(world: World) -> None:
    reader = caller(world.owner, "read")
    assert reader.get("runs")[0] == 200
    status, problem = reader.post("runs", {"program": world.revision.program_id})
    assert status == 403
    assert "scope 'run'" in problem["detail"]
    assert reader.post("programs", {"text": "x"})[0] == 403
    assert reader.get("review/projects")[0] == 403
    assert caller(world.owner, "run").get("runs")[0] == 403


def test_without_a_usable_token_nobody_comes_in(client: Client, world: World) -> None:
    assert client.get("/api/v1/runs").status_code == 401
    client.force_login(world.owner)  # a session is no token: a page of another site could use it
    answer = client.get("/api/v1/runs")
    assert answer.status_code == 401
    assert answer["WWW-Authenticate"] == 'Bearer realm="StitchWeb"'
    for wrong in ("stw_wrong", "", "x" * 5000, "stw_\xff"):
        assert Caller(wrong).get("runs")[0] == 401
    mine = caller(world.owner)
    ApiToken.objects.update(expires_at=timezone.now())
    assert mine.get("runs")[0] == 401
    assert "invalid_token" in mine.last["WWW-Authenticate"]


def test_a_token_ends_with_its_person_and_when_it_is_revoked(owner: Client, world: World) -> None:
    mine = caller(world.owner)
    type(world.owner).objects.filter(pk=world.owner.pk).update(is_active=False)
    assert mine.get("runs")[0] == 401
    type(world.owner).objects.filter(pk=world.owner.pk).update(is_active=True)
    assert mine.get("runs")[0] == 200
    row = ApiToken.objects.get()
    other = Client()
    other.force_login(world.teammate)
    assert other.post(f"/settings/tokens/{row.pk}/revoke").status_code == 404
    assert owner.post(f"/settings/tokens/{row.pk}/revoke").status_code == 302
    assert mine.get("runs")[0] == 401


def test_more_requests_than_the_limit_wait(world: World, settings: Any) -> None:
    settings.API_PER_MINUTE = 3
    cache.clear()
    mine, another = caller(world.owner), caller(world.owner)
    assert [mine.get("teams")[0] for _ in range(4)] == [200, 200, 200, 429]
    assert 1 <= int(mine.last["Retry-After"]) <= 60
    assert another.get("teams")[0] == 200
