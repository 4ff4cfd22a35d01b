"""What a profile file may cost: bytes, rows, text and seconds. A file beyond them is refused with one sentence."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


class UnreadableProfile(Exception):
    """A file that is no profile we can read. The message is one sentence for people: what is wrong, and what to do."""


# Of a reader in a process of its own, in the same words whatever ended it.
TOO_SLOW = "Reading the report took longer than it may: profile fewer iterations."
TOO_LARGE = "Reading the report took more memory than it may: profile fewer iterations."
BROKEN = "The report could not be read: the reader ended on it. Export it again, or profile fewer iterations."
NO_SANDBOX = 5  # exit status of `profile import --sandbox` on a machine that has none


@dataclass(frozen=True)
class Limits:
    """Sizes in bytes or characters; `seconds` of wall clock for one file."""

    file_bytes: int = 2 << 30
    text_bytes: int = 512 << 20  # of JSON or CSV, unpacked
    value_chars: int = 16 << 20  # of one JSON value
    events: int = 3_000_000  # looked at
    rows: int = 600_000  # kept
    cells: int = 4_000_000  # of a table of counters
    seconds: float = 30.0


LIMITS = Limits()


@dataclass
class Meter:
    """Counts what one file has cost so far; every loop over its content passes here."""

    limits: Limits = LIMITS
    events: int = 0
    rows: int = 0
    started: float = field(default_factory=time.monotonic)

    def event(self) -> None:
        """One more event was looked at."""
        self.events += 1
        if self.events % 4096 == 0:
            self.clock()
        if self.events > self.limits.events:
            raise UnreadableProfile(
                f"The file holds more than {self.limits.events:,} events, which is more than is read: profile fewer iterations."
            )

    def row(self) -> None:
        """One more row was kept."""
        self.rows += 1
        if self.rows > self.limits.rows:
            raise UnreadableProfile(
                f"The file holds more than {self.limits.rows:,} rows, which is more than is kept: profile fewer iterations."
            )

    def late(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() - self.started > self.limits.seconds

    def clock(self) -> None:
        """Refuses the file when its time is over."""
        if self.late():
            raise UnreadableProfile(f"Reading the file took longer than {self.limits.seconds:g} s: profile fewer iterations.")
