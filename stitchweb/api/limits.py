"""How many requests a token may make in a minute, counted in the cache for all web processes together."""

from __future__ import annotations

import time

from django.conf import settings
from django.core.cache import cache

WINDOW_S = 60


class TooManyRequests(Exception):
    """More than the limit. `retry_s`: when the next one is taken."""

    def __init__(self, sentence: str, retry_s: int) -> None:
        super().__init__(sentence)
        self.retry_s = retry_s


def count(token: int) -> None:
    """Count one request. TooManyRequests when it is above the limit."""
    now = time.time()
    window = int(now // WINDOW_S)
    key = f"api:{window}:{token}"
    cache.add(key, 0, 2 * WINDOW_S)
    try:
        counted = cache.incr(key)
    except ValueError:  # it ended between the two
        return
    if counted > settings.API_PER_MINUTE:
        wait = max(1, round((window + 1) * WINDOW_S - now))
        raise TooManyRequests(
            f"This token made more than {settings.API_PER_MINUTE} requests in a minute. Wait {wait} s, and watch a run instead"
            " of asking for it again and again.",
            wait,
        )
