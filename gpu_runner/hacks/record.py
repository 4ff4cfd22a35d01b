"""What the gallery came to, as a file: every result with the run it is from. The site's page and the documentation read these.

A run of one class replaces the results of that class alone, so each result names its run, and each run says when, where and by
which Verifier. The file is written after every program: a run that is broken off leaves what it has found.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from gpu_runner.contracts import Contract, DeviceInfo, digest
from gpu_runner.hacks.gallery import Entry
from gpu_runner.hacks.trial import PROTOCOL, Result
from gpu_runner.hands import HandsError

KINDS: tuple[Kind, ...] = ("cpu", "cuda")
Kind = Literal["cpu", "cuda"]


class Run(Contract):
    """One start of the command. `at`: ISO 8601, UTC; `verifier`: digest of the code that judged; `wall_s`: seconds it took."""

    at: str
    command: str
    protocol: str
    verifier: str
    device: DeviceInfo
    python: str
    system: str
    wall_s: float = 0.0


class Judged(Result):
    """A result with its origin. `entry`: digest of the program as it was judged; `run`: a key of `Record.runs`."""

    entry: str
    run: str


class Record(Contract):
    """All results for one kind of device, by name."""

    schema_name: Literal["stitchweb.gallery/1"] = "stitchweb.gallery/1"
    kind: Kind
    runs: dict[str, Run] = {}
    results: tuple[Judged, ...] = ()

    def result(self, name: str) -> Judged | None:
        return next((r for r in self.results if r.name == name), None)

    def with_result(self, found: Judged, run: Run, names: Collection[str]) -> Record:
        """With one more result in its place. What is of no program of `names`, and runs without a result, are left out."""
        kept = [r for r in self.results if r.name != found.name and r.name in names]
        results = tuple(sorted((*kept, found), key=lambda r: (r.hack is None, r.name)))
        runs = {key: value for key, value in self.runs.items() if any(r.run == key for r in results)}
        return self.model_copy(update={"results": results, "runs": runs | {found.run: run}})


def recorded(kind: Kind) -> Path:
    """Where a checkout keeps the results for a kind of device."""
    return Path(__file__).with_name("results") / f"{kind}.json"


def read_record(path: Path) -> Record | None:
    """What the file holds; None where there is none. Raises HandsError with a sentence for anything else."""
    try:
        return Record.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise HandsError(f"The record {path} cannot be read: {error.strerror}.") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise HandsError(f"The record {path} is none of this version ({place}: {first['msg']}); name another file.") from None


class Recorder:
    """Writes one run's results into a file that other runs may be writing, too."""

    def __init__(self, path: Path, kind: Kind, run: Run, names: Collection[str]) -> None:
        self.path, self.kind, self.run, self.names = path, kind, run, frozenset(names)
        self.key = uuid.uuid4().hex[:8]
        self._read()

    def _read(self) -> Record:
        record = read_record(self.path) or Record(kind=self.kind)
        if record.kind != self.kind:
            raise HandsError(
                f"The record {self.path} is of the kind {record.kind}, this run of {self.kind}; name another file."
            )
        return record

    def known(self, entry: Entry) -> Result | None:
        """What this very Verifier has found out about this very program on this device already."""
        record = self._read()
        found = record.result(entry.name)
        if found is None or found.entry != entry.sha256:
            return None
        by = record.runs[found.run]
        same = (by.verifier, by.protocol, by.device.name) == (self.run.verifier, self.run.protocol, self.run.device.name)
        return found if same else None

    def add(self, entry: Entry, result: Result, wall_s: float) -> None:
        """Put a result into the file. `wall_s`: seconds since the run's start."""
        judged = Judged(**result.model_dump(), entry=entry.sha256, run=self.key)
        run = self.run.model_copy(update={"wall_s": round(wall_s, 1)})
        with _alone_in(self.path.parent):
            record = self._read().with_result(judged, run, self.names)
            draft = self.path.with_suffix(f".{os.getpid()}")
            draft.write_text(record.model_dump_json(indent=1) + "\n", encoding="utf-8")
            draft.replace(self.path)


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Runs of several classes at once, as on a large machine, write one after the other."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def begun(device: DeviceInfo, command: str) -> Run:
    """A run that starts now."""
    return Run(
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        command=command,
        protocol=PROTOCOL.id,
        verifier=verifier(),
        device=device,
        python=platform.python_version(),
        system=f"{platform.system()} {platform.release()}",
    )


@lru_cache(maxsize=1)
def verifier() -> str:
    """A digest of the Verifier and its protocol: results of another one may be others."""
    package = Path(__file__).resolve().parents[1]
    texts = [hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(package.rglob("*.py"))]
    return digest({"code": texts, "protocol": PROTOCOL.model_dump(mode="json")})[:16]
