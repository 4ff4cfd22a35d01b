"""Runs the profilers' commands, each in a process group of its own with a limit, and makes the best of what they leave.

`run` is a parameter of every flow: where a user's program is profiled, it starts the command in the sandbox;
`run_bounded` alone is no boundary.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpu_runner.profile import tools
from gpu_runner.profile.tools import Outcome, ToolCommand

MOST_OUTPUT = 16 << 20  # bytes that are kept of what a tool prints: a page of counters is some 100 kB
_SUFFIXES = (".nsys-rep", ".qdstrm", ".sqlite", ".ncu-rep")


@dataclass(frozen=True)
class Ran:
    """`status`: the exit status, None where the time ran out or nothing started."""

    status: int | None
    output: str


Run = Callable[[ToolCommand], Ran]


def run_bounded(command: ToolCommand) -> Ran:
    """Run a tool; its process group is killed when its time is over, and what it leaves running with it."""
    environment = {"PATH": os.defpath, "HOME": str(command.leaves.parent), **dict(command.environment)}
    with tempfile.TemporaryFile() as printed:
        try:
            child = subprocess.Popen(
                command.argv,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            return Ran(None, f"{command.argv[0]}: {error.strerror}")
        try:
            status: int | None = child.wait(timeout=command.seconds)
        except subprocess.TimeoutExpired:
            status = None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        printed.seek(0)
        return Ran(status, printed.read(MOST_OUTPUT).decode("utf-8", "replace"))


def record_nsys(nsys: str, out: Path, program: Sequence[str], run: Run) -> tuple[Path | None, Outcome]:
    """Record, import where the importer did not run by itself, export. The SQLite export, or None and why.

    An installation that misses a library of its importer (seen: `libdw.so.1`) leaves the raw stream alone; the importer is then
    tried by hand, and what it misses is named.
    """
    done = run(tools.nsys_profile(nsys, out, program))
    if done.status is None:
        return None, _no_answer("Nsight Systems", done)
    output = done.output
    if ".qdstrm" in _left(out) and ".nsys-rep" not in _left(out):
        for importer in tools.importers(_installation(nsys)):
            output += run(tools.nsys_import(str(importer), out)).output
            if ".nsys-rep" in _left(out):
                break
    outcome = tools.nsys_outcome(done.status, _left(out), output)
    if outcome.status != "measured":
        return None, outcome
    export = tools.nsys_export(nsys, out)
    done = run(export)
    if done.status != 0 or not export.leaves.is_file():
        return None, Outcome("unavailable", "no_export", "Nsight Systems could not export its report as SQLite.")
    return export.leaves, outcome


def record_ncu(ncu: str, out: Path, program: Sequence[str], kernel: str, run: Run) -> tuple[list[Path], Outcome]:
    """Read one kernel's counters and print both pages. The pages that could be printed, raw first, and what it came to."""
    done = run(tools.ncu_profile(ncu, out, program, kernel))
    if done.status is None:
        return [], _no_answer("Nsight Compute", done)
    outcome = tools.ncu_outcome(done.status, _left(out), done.output)
    if outcome.status != "measured":
        return [], outcome
    pages = []
    for page in ("raw", "details"):
        command = tools.ncu_page(ncu, out, page)
        done = run(command)
        if done.status == 0 and done.output:
            command.leaves.write_text(done.output, encoding="utf-8")
            pages.append(command.leaves)
    if not pages:
        return [], Outcome("unavailable", "no_export", "Nsight Compute could not print its report.")
    return pages, outcome


def _no_answer(tool: str, done: Ran) -> Outcome:
    if done.output.endswith(("No such file or directory", "Permission denied", "Exec format error")):
        return Outcome("unavailable", "not_installed", f"{tool} could not be started.")
    return Outcome("unavailable", "timed_out", f"{tool} took longer than its limit and was ended.")


def _left(out: Path) -> set[str]:
    """The suffixes of the files that a tool left."""
    return {suffix for suffix in _SUFFIXES if out.with_name(out.name + suffix).is_file()}


def _installation(nsys: str) -> Path:
    """The folder that holds the `target-…` folder of nsys itself: its host programs stand in a folder beside that one."""
    found = Path(shutil.which(nsys) or nsys).resolve()
    return found.parents[min(1, len(found.parents) - 1)]
