"""The cache of the site: in the broker, so that all web processes count attempts together; in this process while it is away.

A site whose broker is away is slow already, and must not lock people out or stop counting.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import redis
from django.core.cache.backends.locmem import LocMemCache
from django.core.cache.backends.redis import RedisCache, RedisCacheClient

logger = logging.getLogger(__name__)

AGAIN_S = 10.0  # after a failure, until the broker is asked again


class _Broker:
    """What all caches of a process share, as Django makes one a request: connections, and until when none is tried."""

    def __init__(self, server: str) -> None:
        self.client = RedisCacheClient([server])
        self.away_until = 0.0


_broker = cache(_Broker)


class SurvivingCache(RedisCache):
    """Django's Redis cache, which counts in this process while the server cannot be reached."""

    def __init__(self, server: str, params: dict[str, Any]) -> None:
        super().__init__(server, params)
        self._own = LocMemCache("surviving", params)
        self._broker = _broker(server)

    @property
    def _cache(self) -> RedisCacheClient:
        return self._broker.client

    def _either(self, name: str, ask: Callable[..., Any], *args: Any, **more: Any) -> Any:
        if time.monotonic() >= self._broker.away_until:
            try:
                return ask(*args, **more)
            except (redis.RedisError, OSError) as error:
                self._broker.away_until = time.monotonic() + AGAIN_S
                logger.warning("the broker cannot be reached, so this process counts for itself (%s)", error)
        return getattr(self._own, name)(*args, **more)

    def add(self, *args: Any, **more: Any) -> Any:
        return self._either("add", super().add, *args, **more)

    def get(self, *args: Any, **more: Any) -> Any:
        return self._either("get", super().get, *args, **more)

    def set(self, *args: Any, **more: Any) -> Any:
        return self._either("set", super().set, *args, **more)

    def delete(self, *args: Any, **more: Any) -> Any:
        return self._either("delete", super().delete, *args, **more)

    def incr(self, *args: Any, **more: Any) -> Any:
        return self._either("incr", super().incr, *args, **more)

    def touch(self, *args: Any, **more: Any) -> Any:
        return self._either("touch", super().touch, *args, **more)
