"""Progress of something that the agent worker makes, as its row tells it, and the word that it is to stop."""

from __future__ import annotations

import time
from collections.abc import Callable

from django.utils import timezone

from stitchweb.datasets.models import Work

EVERY_S = 0.5


class Stopped(Exception):
    """Somebody cancelled it."""


class Refused(Exception):
    """It cannot be made. The message is a sentence for the person."""


Tell = Callable[[str, int, int], None]  # what it is at, how many of how many


def silent(doing: str, at: int = 0, of: int = 0) -> None:
    """Tells nobody."""


def teller(row: Work) -> Tell:
    """Writes progress into the row, twice a second at most and whenever `doing` changes. Raises Stopped when it was
    cancelled."""
    last: list[object] = ["", 0.0]

    def tell(doing: str, at: int = 0, of: int = 0) -> None:
        now = time.monotonic()
        if doing == last[0] and now - float(last[1]) < EVERY_S:  # type: ignore[arg-type]
            return
        last[:] = [doing, now]
        rows = type(row).objects.filter(pk=row.pk)  # type: ignore[attr-defined]
        rows.update(doing=doing, at=at, of=of, heard_at=timezone.now())
        if rows.values_list("cancel", flat=True).first() in (True, None):
            raise Stopped

    return tell
