"""What the log keeps of libraries that say too much."""

from __future__ import annotations

import logging
import time

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
