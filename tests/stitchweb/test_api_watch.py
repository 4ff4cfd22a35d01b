"""A run watched by server-sent events: as it happens, bounded, ended when it has to be, and nothing held afterwards."""

from __future__ import annotations

import asyncio
import json

import pytest
from channels.db import database_sync_to_async
from django.utils import timezone

from stitchweb.api.models import ApiToken, Scope
from stitchweb.api.rest import watch
from stitchweb.api.tokens import make_token
from stitchweb.runs import services, stream
from stitchweb.runs.models import Run
from stitchweb.teams.models import Membership
from tests.agents.loop_world import options
from tests.conftest import World, build_world
from tests.stitchweb.api_world import caller
from tests.stitchweb.test_stream import tell

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def world() -> World:
    return build_world()


@pytest.fixture
def run(world: World) -> Run:
    return services.start_run(world.owner, world.revision, options())


@pytest.fixture
def token(world: World) -> ApiToken:
    return make_token(world.viewer, "watching", Scope.values, 7)[0]


class Reader:
    """Takes frames of one stream, one after another."""

    def __init__(self, token: ApiToken, run: Run, after: int = 0) -> None:
        self.frames = watch._frames(token, run.pk, after)

    async def take(self) -> dict[str, str]:
        """The next frame that is no comment and no setting."""
        while True:
            async with asyncio.timeout(5):
                text = await anext(self.frames)
            if not text.startswith((":", "retry")):
                return dict(line.split(": ", 1) for line in text.strip().split("\n"))

    async def until(self, seq: int) -> list[int]:
        seen = []
        while not seen or seen[-1] < seq:
            seen.append(int((await self.take())["id"]))
        return seen


async def test_what_happens_comes_as_it_happens_and_once(run: Run, token: ApiToken) -> None:
    reader = Reader(token, run)
    assert await reader.until(3) == [1, 2, 3]
    for word in ("first", "second"):
        seq = await database_sync_to_async(tell)(run, word)
        frame = await reader.take()
        assert int(frame["id"]) == seq
        assert json.loads(frame["data"])["payload"]["text"] == word
    await reader.frames.aclose()
    assert not watch._open
    assert not stream._readers


async def test_a_lost_doorbell_costs_seconds_and_no_event(run: Run, token: ApiToken, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "POLL_S", 0.05)
    reader = Reader(token, run, after=3)
    waiting = asyncio.create_task(reader.take())
    await asyncio.sleep(0.1)
    seq = await database_sync_to_async(tell)(run, "quietly", True)
    assert int((await waiting)["id"]) == seq
    await reader.frames.aclose()


async def test_a_reader_that_goes_away_leaves_nothing_behind(run: Run, token: ApiToken) -> None:
    reader = Reader(token, run, after=3)
    waiting = asyncio.create_task(reader.take())
    await asyncio.sleep(0.2)
    assert watch._open[token.user_id] == 1
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await reader.frames.aclose()
    assert not watch._open
    assert not stream._readers


@pytest.mark.parametrize("end", ["membership", "token"])
async def test_the_stream_closes_when_the_right_or_the_token_ends(
    run: Run, world: World, token: ApiToken, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.setattr(watch, "ACCESS_S", 0.0)
    reader = Reader(token, run)
    await reader.until(3)
    rows = Membership.objects.filter(user=world.viewer) if end == "membership" else ApiToken.objects.filter(pk=token.pk)
    await database_sync_to_async(rows.delete if end == "membership" else lambda: rows.update(expires_at=timezone.now()))()
    await database_sync_to_async(tell)(run, "not for them")
    frames = [await reader.take()]
    while frames[-1].get("event") != "closed":  # what was read before the next look may still come
        frames.append(await reader.take())
    assert "may not see" in frames[-1]["data"]
    assert not [frame async for frame in reader.frames]


async def test_an_old_stream_asks_its_reader_to_come_back(run: Run, token: ApiToken, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "LONGEST_S", 0.0)
    reader = Reader(token, run)
    await reader.until(3)
    assert (await reader.take())["event"] == "again"


async def test_a_quiet_stream_says_that_it_is_only_quiet(run: Run, token: ApiToken, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "BEAT_S", 0.05)
    reader = Reader(token, run, after=3)
    async with asyncio.timeout(5):
        assert [await anext(reader.frames) for _ in range(2)][1] == ": still there\n\n"
    await reader.frames.aclose()


async def test_a_deleted_run_closes_its_streams(run: Run, token: ApiToken, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "BEAT_S", 0.05)
    reader = Reader(token, run)
    await reader.until(3)
    await database_sync_to_async(run.delete)()
    assert (await reader.take())["event"] == "closed"


def test_nobody_holds_more_streams_than_allowed(run: Run, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(watch._open, world.viewer.pk, watch.MAX_STREAMS)
    status, problem = caller(world.viewer).get(f"runs/{run.pk}/watch")
    assert status == 429
    assert "Close one of them" in problem["detail"]
