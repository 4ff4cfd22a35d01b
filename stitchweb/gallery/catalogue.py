"""The gallery's programs with their recorded results, as the pages show them. Nothing here runs a program."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from gpu_runner.contracts.candidate import MODEL_FILE
from gpu_runner.hacks.gallery import HONEST, Entry, default_folder, read
from gpu_runner.hacks.record import KINDS, Judged, Kind, Record, Run, read_record, recorded
from gpu_runner.hands import HandsError

logger = logging.getLogger(__name__)

NOT_JUDGED = "not judged"
HACK_OUTCOMES = ("rejected", "neutralised", "misnamed", "missed", "broken")
HONEST_OUTCOMES = ("accepted", "refused")


@dataclass(frozen=True)
class Outcome:
    """What became of a program on one kind of device. `result` None: nothing is recorded of it in its present form; `stale`:
    there is something of an earlier form."""

    kind: Kind
    result: Judged | None
    run: Run | None
    stale: bool = False

    @property
    def word(self) -> str:
        return self.result.outcome if self.result else NOT_JUDGED

    @property
    def reported(self) -> list[str]:
        """The kinds that something hints at, each once."""
        return list(dict.fromkeys(map(str, self.result.suspects))) if self.result else []


@dataclass(frozen=True)
class Program:
    """A program of the gallery. `folder` is its class or `honest`; `outcomes`: one per kind of device it is made for."""

    entry: Entry
    folder: str
    topic: str
    title: str
    outcomes: tuple[Outcome, ...]

    @property
    def anchor(self) -> str:
        return self.entry.name.partition("/")[2].replace("/", "-")

    @property
    def files(self) -> list[tuple[str, str]]:
        """Path and text of what it consists of, without the reference that stands before it when it is judged."""
        text = self.entry.path.read_text(encoding="utf-8")
        lines = text.splitlines(keepends=True)
        head = next((i for i, line in enumerate(lines) if not line.startswith("#")), len(lines))
        own = [(MODEL_FILE, "".join(lines[head:]).lstrip("\n"))]
        return own + [(path, text) for path, text in self.entry.candidate.files.items() if path.startswith("kernels/")]

    def outcome(self, kind: str) -> Outcome | None:
        return next((o for o in self.outcomes if o.kind == kind), None)


@dataclass(frozen=True)
class Catalogue:
    """All programs, hacks first, and the records they were joined with. `missing`: why there are none."""

    programs: tuple[Program, ...]
    records: dict[str, Record | None]
    missing: str = ""

    def of(self, folder: str) -> list[Program]:
        return [p for p in self.programs if p.folder == folder]

    def tally(self, kind: str, programs: Iterable[Program]) -> Counter[str]:
        """How many of these came to what on this kind of device; programs that are not for it do not count."""
        return Counter(o.word for p in programs if (o := p.outcome(kind)) is not None)

    def runs(self, kind: str) -> list[Run]:
        """The runs behind the shown results, oldest first."""
        record = self.records[kind]
        shown = {o.result.run for p in self.programs if (o := p.outcome(kind)) and o.result}
        return sorted((run for key, run in record.runs.items() if key in shown), key=lambda run: run.at) if record else []


def catalogue() -> Catalogue:
    """The gallery with what is recorded now. Files are read again when a record was written."""
    return _catalogue(tuple(_written(kind) for kind in KINDS))


def _written(kind: Kind) -> int:
    try:
        return recorded(kind).stat().st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=2)
def _catalogue(stamps: tuple[int, ...]) -> Catalogue:
    records = {kind: _record(kind) for kind in KINDS}
    try:
        entries = _entries()
    except HandsError as error:
        return Catalogue((), dict(records), str(error))
    programs = tuple(_program(entry, records) for entry in entries)
    return Catalogue(tuple(sorted(programs, key=lambda p: (p.entry.hack is None, p.entry.name))), dict(records))


@lru_cache(maxsize=1)
def _entries() -> tuple[Entry, ...]:
    found = {entry.name: entry for kind in KINDS for entry in read(default_folder(), kind)}
    return tuple(found.values())


def _record(kind: Kind) -> Record | None:
    try:
        return read_record(recorded(kind))
    except HandsError as error:
        logger.warning("%s", error)
        return None


def _program(entry: Entry, records: dict[Kind, Record | None]) -> Program:
    parts = entry.name.split("/")
    return Program(
        entry=entry,
        folder=str(entry.hack or HONEST),
        topic="" if entry.hack else parts[1],
        title=parts[-1].replace("_", " "),
        outcomes=tuple(_outcome(entry, kind, records[kind]) for kind in KINDS if kind in entry.targets),
    )


def _outcome(entry: Entry, kind: Kind, record: Record | None) -> Outcome:
    found = record.result(entry.name) if record else None
    if record is None or found is None:
        return Outcome(kind, None, None)
    if found.entry != entry.sha256:
        return Outcome(kind, None, None, stale=True)
    return Outcome(kind, found, record.runs[found.run])
