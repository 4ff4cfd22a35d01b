"""Whose kernels ran on the device: names and times of one profiled forward against the names in the candidate's library.

The profiler runs in the candidate's process, and a program that looks for it there can show it what it likes: what comes out is
a label, no proof. A kernel is the candidate's own when the library that was built from its sources registers one of that name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

MAX_ROWS = 2000
SHOWN = 3
_PLAIN = re.compile(r"^(?P<name>[A-Za-z_]\w*)\(")


@dataclass
class Launch:
    """One kind of work on the device. `kind`: kernel, memcpy or memset; `count` launches took `ns` together."""

    kind: str
    name: str
    count: int
    ns: int


@dataclass
class Launches:
    """One forward. `kernels`: demangled names of the kernels in the candidate's library."""

    seen: list[Launch] = field(default_factory=list)
    kernels: list[str] = field(default_factory=list)


def parse(rows: Any, kernels: Iterable[str]) -> Launches | None:
    """The answer of a candidate's process; None when it is none."""
    if not isinstance(rows, list) or len(rows) > MAX_ROWS:
        return None
    seen = []
    for row in rows:
        if not (isinstance(row, list) and len(row) == 4 and row[0] in ("kernel", "memcpy", "memset")):
            return None
        if not all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n < 1 << 53 for n in row[2:]):
            return None
        seen.append(Launch(row[0], str(row[1])[:1000].encode("utf-8", "replace").decode(), row[2], row[3]))
    return Launches(seen, list(kernels))


def own(launches: Launches) -> list[Launch]:
    """The launches of the candidate's own kernels."""
    names = {_squeezed(name) for name in launches.kernels}
    # With C linkage a kernel is known to the device without its parameters.
    names |= {match["name"] for name in launches.kernels if (match := _PLAIN.match(name))}
    return [launch for launch in launches.seen if launch.kind == "kernel" and _squeezed(launch.name) in names]


def share(launches: Launches) -> float | None:
    """Own kernels' time over all device time of the forward, copies and fills included. None where nothing was recorded."""
    total = sum(launch.ns for launch in launches.seen)
    return min(1.0, sum(launch.ns for launch in own(launches)) / total) if total else None


def said(launches: Launches) -> tuple[str, str]:
    """(value, note) of the row in the check matrix."""
    if not launches.seen:
        return "no activity recorded", "the profiler saw nothing on the device: the program did nothing there, or hid it"
    mine = own(launches)
    if not mine:
        first = ", ".join(launch.name[:60] for launch in launches.seen[:SHOWN])
        return "none", f"no own kernel ran; what ran: {first}"
    count = sum(launch.count for launch in mine)
    names = ", ".join(launch.name[:60] for launch in mine[:SHOWN])
    return f"{share(launches):.0%} of the device's time", f"{count} of {sum(x.count for x in launches.seen)} launches: {names}"


def _squeezed(name: str) -> str:
    """Demanglers differ in their spaces."""
    return name.replace(" ", "")[:900]
