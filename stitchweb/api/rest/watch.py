"""A run as it happens, by server-sent events: the numbers and facts that pages are folded from.

The stream resumes where `Last-Event-ID` says, or `after`. It ends by itself: with the event `end` once the run has ended and
all is told, with `again` after a quarter of an hour, with `closed` when the person or the token may not see the run any more.
"""

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import AsyncIterator
from typing import Annotated

from asgiref.sync import sync_to_async
from channels.db import database_sync_to_async
from django.http import HttpRequest, StreamingHttpResponse
from ninja import Query, Router

from agents.events import Event
from stitchweb.api.auth import READ
from stitchweb.api.models import ApiToken
from stitchweb.api.problems import Malformed, TooManyStreams
from stitchweb.api.rest.runs import Id
from stitchweb.api.rest.schemas import BIG, event_out
from stitchweb.core.limits import Held
from stitchweb.runs.access import may_watch, run_for
from stitchweb.runs.history import PAGE, events_after
from stitchweb.runs.models import ENDED, Run
from stitchweb.runs.stream import reader_of

logger = logging.getLogger(__name__)

MAX_STREAMS = 20  # per person and process
LONGEST_S = 900.0
BEAT_S = 15.0  # a quiet stream says this often that it is only quiet: proxies cut what says nothing
ACCESS_S = 60.0  # how old the last look at the person's rights may be
RETRY_MS = 2000  # when a reader that was cut off comes back

router = Router(tags=["Runs"])
_open = Held()

_STREAM = {
    "responses": {
        200: {
            "description": "Frames with `id` (the event's number), `event` (its kind) and `data` (as in `events`).",
            "content": {
                "text/event-stream": {
                    "schema": {
                        "type": "object", "title": "Frame", "required": ["event", "data"],
                        "properties": {name: {"type": "string"} for name in ("id", "event", "data")},
                    }
                }
            },
        }
    },
    "parameters": [
        {
            "in": "header", "name": "Last-Event-ID", "required": False,
            "schema": {"type": "string", "pattern": "^[0-9]{0,15}$"},
            "description": "the number of the last event that came; browsers send it by themselves",
        }
    ],
}  # fmt: skip


@router.get(
    "/runs/{int:pk}/watch", auth=READ, url_name="watch", response={200: None}, summary="Watch a run", openapi_extra=_STREAM
)
async def watch(
    request: HttpRequest,
    pk: Id,
    after: Annotated[int, Query(ge=0, le=BIG, description="the number of the last event that you have")] = 0,
):
    """Every event after `Last-Event-ID` or `after`, then those to come, until the run has ended. Server-sent events."""
    last = request.headers.get("Last-Event-ID", "")
    if last:
        if not (last.isascii() and last.isdecimal() and len(last) < 16):
            raise Malformed("Last-Event-ID is the number of an event.")
        after = int(last)
    token: ApiToken = request.auth  # type: ignore[attr-defined]
    run = await sync_to_async(run_for)(request.user, pk)
    if _open[token.user_id] >= MAX_STREAMS:
        raise TooManyStreams(f"You watch {MAX_STREAMS} runs already, as many as one person may at once. Close one of them.")
    return StreamingHttpResponse(
        _frames(token, run.pk, after),
        content_type="text/event-stream; charset=utf-8",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},  # the second: proxies pass frames on at once
    )


def _frame(event: Event) -> str:
    data = event_out(event).model_dump_json()
    return f"id: {event.seq}\nevent: {event.kind}\ndata: {data}\n\n"


def _last(kind: str, **data: object) -> str:
    return f"event: {kind}\ndata: {json.dumps(data)}\n\n"


async def _frames(token: ApiToken, run_id: int, after: int) -> AsyncIterator[str]:
    """Closed by Django when the reader goes away; what it holds is given back on every way out."""
    with _open.one(token.user_id):
        yield f"retry: {RETRY_MS}\n\n"
        try:
            async with reader_of(run_id) as reader, contextlib.aclosing(_told(token, run_id, after, reader.news)) as told:
                async for text in told:
                    yield text
        except Exception:
            logger.exception("the stream of events of run %s broke", run_id)
            yield _last("again", reason="The stream broke. Come back with the number of the last event.")


async def _told(token: ApiToken, run_id: int, after: int, news) -> AsyncIterator[str]:  # type: ignore[no-untyped-def]
    began = looked = time.monotonic()
    while True:
        told, status, last = await _read(run_id, after)
        for event in told:
            yield _frame(event)
            after = event.seq
        now = time.monotonic()
        if status is None or (now - looked >= ACCESS_S and not await _allowed(token.pk, run_id)):
            yield _last("closed", reason="You may not see this run any more, or your token ended.")
            return
        looked = now if now - looked >= ACCESS_S else looked
        if status in ENDED and after >= last:
            yield _last("end", status=status)
            return
        if now - began >= LONGEST_S:
            yield _last("again", reason="This stream is old. Come back with the number of the last event.")
            return
        if len(told) == PAGE:
            continue
        try:
            async with asyncio.timeout(BEAT_S):
                await news(after)
        except TimeoutError:
            yield ": still there\n\n"


@database_sync_to_async
def _read(run_id: int, after: int) -> tuple[list[Event], str | None, int]:
    """What comes next, and how the run stands after it. Two queries."""
    told = events_after(run_id, after)
    row = Run.objects.filter(pk=run_id).values_list("status", "last_seq").first()
    return (told, *row) if row else (told, None, 0)


@database_sync_to_async
def _allowed(token_pk: int, run_id: int) -> bool:
    token = ApiToken.objects.usable().select_related("user").filter(pk=token_pk).first()
    return token is not None and may_watch(token.user, run_id)
