"""What a machine in trouble tells people: a full disk, a busy database. Everything else is our mistake and stays a 500."""

from __future__ import annotations

import errno
from dataclasses import dataclass

from django.db import OperationalError

_FULL = (errno.ENOSPC, errno.EDQUOT)
_FULL_WORDS = ("disk is full", "no space left", "disk quota exceeded", "disk full")  # SQLite's and PostgreSQL's
_BUSY_WORDS = ("database is locked", "database table is locked", "lock timeout", "too many clients", "deadlock detected")


@dataclass(frozen=True)
class Trouble:
    """A cause for people. `status`: of the answer; `retry_s`: when to come again, 0 where waiting does not help."""

    heading: str
    sentence: str
    way_out: str
    status: int
    retry_s: int = 0


FULL = Trouble(
    "The disk is full",
    "The disk of this site is full, so nothing was stored.",
    "Tell whoever runs the site: it needs free space where DATA_DIR and the database lie. Then send it again.",
    507,
)
BUSY = Trouble(
    "The database is busy",
    "The database was busy for too long, so nothing was stored.",
    "Send it again in a minute.",
    503,
    60,
)


def trouble(error: BaseException | None) -> Trouble | None:
    """The machine's trouble behind an error, or behind what it was raised from."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, OSError) and error.errno in _FULL:
            return FULL
        if isinstance(error, OperationalError):
            said = str(error).lower()
            if any(word in said for word in _FULL_WORDS):
                return FULL
            if any(word in said for word in _BUSY_WORDS):
                return BUSY
        error = error.__cause__ or error.__context__
    return None
