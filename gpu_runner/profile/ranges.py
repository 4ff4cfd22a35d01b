"""Which stretch of a report counts: the measured iterations, by the name of their range."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpu_runner.profile.limits import UnreadableProfile
from gpu_runner.profile.rows import ITERATION, Row

MEASURE = "stitchweb_measure"
_STEP = re.compile(r"ProfilerStep#\d+")
_RANGES = {"user_annotation", "nvtx"}


def choose(host: Iterable[Row], name: str = "", warmup: int = 0) -> tuple[list[tuple[int, int]], str]:
    """(the iterations in order, what they rest on). `name` picks ranges of that name, `warmup` leaves out the first of them.

    Without a name: our own ranges, then the steps of the profiler's schedule, then none, and the whole report counts.
    """
    rows = sorted((row for row in host if row.category in _RANGES), key=lambda row: row.start)
    if name:
        found = [row for row in rows if row.name == name]
        if not found:
            known = sorted({row.name for row in rows})[:8]
            there = "; the file has " + ", ".join(known) if known else "; the file has no ranges"
            raise UnreadableProfile(f"No range of the file is called {name!r}{there}.")
    else:
        found = [row for row in rows if row.name == ITERATION] or [row for row in rows if row.name == MEASURE]
        found = found or [row for row in rows if _STEP.fullmatch(row.name)]
    if len(found) <= warmup:
        if found:
            raise UnreadableProfile(f"The file has {len(found)} measured ranges, and {warmup} were to be left out.")
        return [], "first_to_last"
    basis = "nvtx" if found[0].category == "nvtx" else "annotation"
    return [(row.start, row.end) for row in found[warmup:] if row.duration > 0], basis
