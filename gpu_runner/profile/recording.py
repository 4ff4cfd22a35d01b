"""Runs the profilers' commands, each in a process group of its own with a limit, and makes the best of what they leave.

Where they run is a `Place`: a sandbox for a user's program (`collectors`), or `ThisMachine`, which is no boundary.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from gpu_runner.profile import tools
from gpu_runner.profile.tools import Outcome, ToolCommand

MOST_OUTPUT = 1 << 20  # bytes that are kept of what a tool says
_SUFFIXES = (".nsys-rep", ".qdstrm", ".sqlite", ".ncu-rep")


@dataclass(frozen=True)
class Ran:
    """`status`: the exit status, None where the time ran out or (`missing`) nothing started."""

    status: int | None
    output: str
    missing: bool = False


class Place(Protocol):
    """Where tools run and leave their files."""

    def run(self, command: ToolCommand) -> Ran: ...

    def sizes(self, paths: Iterable[Path]) -> dict[Path, int]:
        """Bytes of those of the files that are there."""


@dataclass(frozen=True)
class ThisMachine:
    """This machine itself: for programs of our own alone. `environment` is all that a tool finds beside its own."""

    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def run(self, command: ToolCommand) -> Ran:
        """Run a tool; its process group is killed when its time is over, and what it leaves running with it."""
        home = {"PATH": os.defpath, "HOME": str(command.leaves.parent)}
        environment = {**home, **self.environment, **dict(command.environment)}
        with contextlib.ExitStack() as stack:
            said = stack.enter_context(tempfile.TemporaryFile())
            into = stack.enter_context(command.leaves.open("wb")) if command.prints else said
            try:
                child = subprocess.Popen(
                    command.argv, stdin=subprocess.DEVNULL, stdout=into, stderr=said, env=environment, start_new_session=True
                )
            except OSError as error:
                return Ran(None, f"{command.argv[0]}: {error.strerror}", missing=True)
            try:
                status: int | None = child.wait(timeout=command.seconds)
            except subprocess.TimeoutExpired:
                status = None
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            said.seek(0)
            return Ran(status, said.read(MOST_OUTPUT).decode("utf-8", "replace"))

    def sizes(self, paths: Iterable[Path]) -> dict[Path, int]:
        """See `Place`."""
        return {path: path.stat().st_size for path in paths if path.is_file()}


def record_nsys(nsys: str, out: Path, program: Sequence[str], place: Place) -> tuple[Path | None, Outcome]:
    """Record, import where the importer did not run by itself, export. The SQLite export, or None and why.

    An installation that misses a library of its importer (seen: `libdw.so.1`) leaves the raw stream alone; the importer is then
    tried by hand, and what it misses is named.
    """
    done = place.run(tools.nsys_profile(nsys, out, program))
    if done.status is None:
        return None, _no_answer("Nsight Systems", done)
    output, ended = done.output, None
    if ".qdstrm" in _left(place, out) and ".nsys-rep" not in _left(place, out):
        for importer in tools.importers(_installation(nsys)):
            imported = place.run(tools.nsys_import(str(importer), out))
            output, ended = output + imported.output, imported.status
            if ".nsys-rep" in _left(place, out):
                break
    outcome = tools.nsys_outcome(done.status, _left(place, out), output, ended)
    if outcome.status != "measured":
        return None, outcome
    export = tools.nsys_export(nsys, out)
    done = place.run(export)
    if done.status != 0 or not place.sizes([export.leaves]):
        return None, Outcome("unavailable", "no_export", "Nsight Systems could not export its report as SQLite.")
    return export.leaves, outcome


def record_ncu(ncu: str, out: Path, program: Sequence[str], kernel: str, place: Place) -> tuple[list[Path], Outcome]:
    """Read one kernel's counters and print both pages. The pages that could be printed, raw first, and what it came to."""
    done = place.run(tools.ncu_profile(ncu, out, program, kernel))
    if done.status is None:
        return [], _no_answer("Nsight Compute", done)
    outcome = tools.ncu_outcome(done.status, _left(place, out), done.output)
    if outcome.status != "measured":
        return [], outcome
    pages = []
    for page in ("raw", "details"):
        command = tools.ncu_page(ncu, out, page)
        done = place.run(command)
        if done.status == 0 and place.sizes([command.leaves]).get(command.leaves):
            pages.append(command.leaves)
    if not pages:
        return [], Outcome("unavailable", "no_export", "Nsight Compute could not print its report.")
    return pages, outcome


def _no_answer(tool: str, done: Ran) -> Outcome:
    if done.missing:
        return Outcome("unavailable", "not_installed", f"{tool} could not be started{tools.last_words(done.output)}.")
    return Outcome("unavailable", "timed_out", f"{tool} took longer than its limit and was ended.")


def _left(place: Place, out: Path) -> set[str]:
    """The suffixes of the files that a tool left."""
    names = {out.with_name(out.name + suffix): suffix for suffix in _SUFFIXES}
    return {names[path] for path in place.sizes(names)}


def _installation(nsys: str) -> Path:
    """The folder that holds the `target-…` folder of nsys itself: its host programs stand in a folder beside that one."""
    found = Path(shutil.which(nsys) or nsys).resolve()
    return found.parents[min(1, len(found.parents) - 1)]
