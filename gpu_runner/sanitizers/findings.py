"""What sanitizers found, as numbers and names, and the rules over it. Pure: nothing is run here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from gpu_runner.contracts import CheckRow


class What(StrEnum):
    """What a report is about. Memory and races make a result wrong by chance; the others need not."""

    MEMORY = "memory"
    RACE = "race"
    UNDEFINED = "undefined behaviour"
    UNINITIALISED = "uninitialised memory"


REJECTED = (What.MEMORY, What.RACE)
NAMES = {
    "address": "address and undefined-behaviour sanitizer",
    "thread": "thread sanitizer",
    "memcheck": "compute-sanitizer memcheck",
    "initcheck": "compute-sanitizer initcheck",
    "racecheck": "compute-sanitizer racecheck",
}

NOTHING_S = 0.05  # what it takes to see that there is nothing to run


@dataclass
class Found:
    """One report. `kind` in the tool's own word; `file` (as in the candidate) and `line` where the report leads to the
    candidate's own sources, else empty and 0."""

    what: What
    kind: str
    sentence: str
    file: str = ""
    line: int = 0

    @property
    def where(self) -> str:
        return f"{self.file}:{self.line}" if self.file else "outside of the candidate's sources"


@dataclass
class Sanitized:
    """One tool. `seconds`: building, starting and running; `shape`: what it ran on; `not_run`: why there is nothing."""

    tool: str  # a key of NAMES
    seconds: float = 0.0
    shape: str = ""
    found: list[Found] = field(default_factory=list)
    not_run: str = ""


def offence(runs: Iterable[Sanitized]) -> tuple[str, Found] | None:
    """(tool, report) of the first memory error or race in the candidate's own sources: what a program is rejected for."""
    return next(((run.tool, found) for run in runs for found in run.found if found.what in REJECTED and found.file), None)


def sentence(tool: str, found: Found) -> str:
    """The rejection for people."""
    return f"The {NAMES[tool]} found a {found.kind} in {found.where}: {found.sentence}"


def rows(runs: Iterable[Sanitized]) -> list[CheckRow]:
    """One line of the check matrix for each tool. Only an offence fails it."""
    made = []
    for run in runs:
        name = NAMES[run.tool]
        if run.not_run:
            made.append(CheckRow(group="state", name=name, note=run.not_run))
            continue
        bad = offence([run])
        first = bad[1] if bad else run.found[0] if run.found else None
        value = f"{len(run.found)} found" if run.found else "nothing found"
        note = f"{first.kind} in {first.where}: {first.sentence}" if first else ""
        if first and not bad:
            note += " (told, decides nothing)"
        made.append(
            CheckRow(group="state", name=name, value=f"{value}, {run.shape}", passed=not bad if bad or not run.found else None,
                     note=note[:400])
        )  # fmt: skip
    return made


def seconds(runs: Iterable[Sanitized]) -> float | None:
    """What all of it took, side by side; None where none ran."""
    taken = [run.seconds for run in runs if not run.not_run or run.seconds > NOTHING_S]
    return max(taken, default=None)
