"""What an engineer says while it thinks, as events: coalesced, under the lease, never in its way."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

from django.db import DatabaseError, transaction

from agents.events import Coalescer, Event, EventKind, stream_of
from stitchweb.runs import events
from stitchweb.runs.lease import Lease, StepLease

logger = logging.getLogger(__name__)


class Speech:
    """A context whose value is the engineer's `say`. What still waits when the block ends is stored then."""

    def __init__(self, lease: Lease | StepLease, lane: int | None = None) -> None:
        self._lease, self._stream = lease, stream_of("engineer", lane)
        self._texts = Coalescer()

    def __enter__(self) -> Callable[[str], None]:
        return self._say

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._write(self._texts.flush())

    def _say(self, text: str) -> None:
        self._write(self._texts.add(self._stream, text, time.time()))

    def asked(self, payload: dict[str, Any]) -> None:
        """A question to a model was answered, or was not."""
        self._write(self._texts.flush())
        self._tell("model.asked", [payload])

    def called(self, payload: dict[str, Any]) -> None:
        """An engineer called a tool."""
        self._write(self._texts.flush())
        self._tell("tool.called", [payload])

    def _write(self, payloads: list[dict[str, str]]) -> None:
        self._tell("log.lines", payloads)

    def _tell(self, kind: EventKind, payloads: Sequence[Mapping[str, Any]]) -> None:
        if not payloads:
            return
        at = time.time()
        told = [Event(seq=1, kind=kind, at=at, who="engineer", payload=dict(payload)) for payload in payloads]
        try:
            with transaction.atomic():
                run = events.lock(self._lease.run_id)
                if self._lease.holds(run):
                    events.append(run, told)
        except DatabaseError:  # words for the page are not worth a step
            logger.warning("run %s: some words of its engineer are lost", self._lease.run_id, exc_info=True)
