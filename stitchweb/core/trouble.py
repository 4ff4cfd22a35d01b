"""What a machine in trouble tells people: a full disk, a busy database. Everything else is our mistake and stays a 500."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass

from django.conf import settings
from django.db import OperationalError

_FULL = (errno.ENOSPC, errno.EDQUOT)
_FULL_WORDS = ("disk is full", "no space left", "disk quota exceeded", "disk full")  # SQLite's and PostgreSQL's
_ROOM_BYTES = 1 << 20
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
    "The disk of this site is full, so nothing can be stored.",
    "Tell whoever runs the site: it needs free space where DATA_DIR and the database lie. Then try again.",
    507,
)
BUSY = Trouble(
    "The database is busy",
    "The database was busy for too long, so nothing was stored.",
    "Try again in a minute.",
    503,
    60,
)


def _no_room() -> bool:
    """Whether the data folder's disk is full. SQLite needs some of it even to read, and says only that it failed."""
    try:
        disk = os.statvfs(settings.DATA_DIR)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < _ROOM_BYTES or (disk.f_files > 0 and disk.f_favail == 0)


def trouble(error: BaseException | None) -> Trouble | None:
    """The machine's trouble behind an error, or behind what it was raised from."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, OSError) and error.errno in _FULL:
            return FULL
        if isinstance(error, OperationalError):
            said = str(error).lower()
            if any(word in said for word in _FULL_WORDS) or ("disk i/o error" in said and _no_room()):
                return FULL
            if any(word in said for word in _BUSY_WORDS):
                return BUSY
        error = error.__cause__ or error.__context__
    return None
