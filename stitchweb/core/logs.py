"""How the log is written: as lines of text or of JSON, with the ids of what is being worked on; and what it keeps of libraries
that say too much."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

_about: ContextVar[dict[str, Any]] = ContextVar("about", default={})  # noqa: B039  never changed in place


@contextmanager
def about(**ids: Any) -> Iterator[None]:
    """What is logged within carries these ids: `run`, `step`, `job`. Those of a block around it stay."""
    token = _about.set(_about.get() | ids)
    try:
        yield
    finally:
        _about.reset(token)


class JsonLines(logging.Formatter):
    """One object a line: at, level, logger, said, the ids, and the stack of an exception."""

    def format(self, record: logging.LogRecord) -> str:
        said = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "said": record.getMessage(),
            **_about.get(),
        }
        if record.exc_info:
            said["error"] = self.formatException(record.exc_info)
        return json.dumps(said, ensure_ascii=False, default=str)


EVERY_S = 60.0


class BrokerAway(logging.Filter):
    """A broker that is away is one sentence a minute. Its channel layer writes a stack of calls every second."""

    said_at = -EVERY_S

    def filter(self, record: logging.LogRecord) -> bool:
        from redis.exceptions import RedisError  # here: this module is loaded before Django's settings are whole

        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, RedisError | OSError):
            return True
        now = time.monotonic()
        if now - self.said_at < EVERY_S:
            return False
        self.said_at = now
        record.msg, record.args, record.exc_info = (
            "the broker went away (%s); live pages look for news themselves",
            (error,),
            None,
        )
        return True
