"""Reads the reports that people bring, in the sandbox: the web process itself never parses one.

The process is `python -m gpu_runner profile import --sandbox`, in a folder that is gone afterwards, without the site's
environment. Where this machine has no sandbox it reads them itself instead, with limits on its time, memory, files and answer.
Its answer is the summary; nothing else of the reports is kept.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from django.conf import settings

from agents.events import storable
from gpu_runner.profile.limits import BROKEN, NO_SANDBOX, TOO_LARGE, TOO_SLOW
from stitchweb.runs.spread import SCHEMA

logger = logging.getLogger(__name__)

SUFFIXES = (".sqlite", ".json", ".json.gz", ".csv")
MAX_FILES = 4
WALL_S = 60
_AT_ONCE = threading.BoundedSemaphore(2)
_PATIENCE_S = 15
_SENTENCE = 400  # characters
# Limits are set in the child, before anything of the report is looked at: between fork and exec a web process of many threads
# may do nothing.
_BOUNDED = (
    "import resource, runpy, sys\n"
    "for what, most in (('AS', 2 << 30), ('CPU', 50), ('FSIZE', 8 << 20), ('NOFILE', 64), ('CORE', 0)):\n"
    "    resource.setrlimit(getattr(resource, f'RLIMIT_{what}'), (most, most))\n"
    "sys.argv = ['gpu_runner', *sys.argv[1:]]\n"
    "runpy.run_module('gpu_runner', run_name='__main__')\n"
)


class ReportRefused(Exception):
    """The reports give no profile. The message is one sentence for the person; `status` is that of the answer."""

    def __init__(self, sentence: str, status: int = 422) -> None:
        super().__init__(sentence)
        self.status = status


class _File(Protocol):
    """An uploaded file."""

    name: str | None

    def chunks(self) -> Any: ...


@dataclass(frozen=True)
class Range:
    """Which iterations count: those in the range of this name, without the first `warmup`."""

    name: str = ""
    warmup: int = 0


def suffix_of(name: str) -> str:
    """The ending by which a report is taken. ReportRefused, with what to do, for any other."""
    found = next((s for s in sorted(SUFFIXES, key=len, reverse=True) if name.lower().endswith(s)), None)
    if found is None:
        shown = name[-60:] or "A file without a name"
        raise ReportRefused(
            f"{shown} is no report that is read here. Bring .sqlite (nsys export --type=sqlite), .json or .json.gz"
            " (torch.profiler), or .csv (ncu --csv, nsys stats)."
        )
    return found


def read_reports(files: Sequence[_File], wanted: Range) -> dict[str, Any]:
    """The summary of one program's reports. ReportRefused with a sentence for people. Takes WALL_S seconds at most."""
    if len(files) > MAX_FILES:
        raise ReportRefused(f"{len(files)} files are more than one program's reports: bring {MAX_FILES} at most.")
    endings = [suffix_of(str(file.name or "")) for file in files]
    if not _AT_ONCE.acquire(timeout=_PATIENCE_S):
        raise ReportRefused("Other reports are being read at this moment. Try again in a minute.", 503)
    try:
        with tempfile.TemporaryDirectory(prefix="stitchweb-report-") as folder:
            names = [f"report{number}{ending}" for number, ending in enumerate(endings)]
            for name, file in zip(names, files, strict=True):
                with (Path(folder) / name).open("wb") as copy:
                    for chunk in file.chunks():
                        copy.write(chunk)
            return _read(Path(folder), names, wanted)
    finally:
        _AT_ONCE.release()


def _read(folder: Path, names: Sequence[str], wanted: Range) -> dict[str, Any]:
    task = ["profile", "import", *names, "--json", f"--range={wanted.name}", f"--warmup={wanted.warmup}"]
    bare = {"PYTHONPATH": str(settings.BASE_DIR), "PATH": os.defpath, "LC_ALL": "C.UTF-8"}
    status, said, complaint = _ran(["-m", "gpu_runner", *task, "--sandbox"], folder, settings.RUNNER_ENV | bare)
    if status == NO_SANDBOX:
        logger.warning("a report is read without the sandbox, by a process with limits: %s", complaint)
        status, said, complaint = _ran(["-c", _BOUNDED, *task], folder, bare)
    if status == 0:
        return _summary(said)
    raise _why(status, complaint)


def _ran(arguments: Sequence[str], folder: Path, environment: dict[str, str]) -> tuple[int, bytes, str]:
    """(status, answer, what it complained about) of Python with these arguments. It is given WALL_S seconds."""
    command = [sys.executable, "-s", "-P", "-B", *arguments]
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as complained:
        child = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=complained,
            start_new_session=True,
        )
        try:
            status = child.wait(WALL_S)
        except subprocess.TimeoutExpired:
            status = -signal.SIGXCPU
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
        said.seek(0)
        complained.seek(0)
        complaint = complained.read(64 << 10).decode("utf-8", "replace").strip()
        return status, said.read(), complaint


def _summary(data: bytes) -> dict[str, Any]:
    try:
        summary = json.loads(data)
    except (ValueError, RecursionError):
        summary = None
    if not isinstance(summary, dict) or summary.get("schema") != SCHEMA:
        logger.error("the reader of reports gave no summary")
        raise ReportRefused("The report could not be read.")
    kept: dict[str, Any] = storable(summary)
    return kept


def _why(status: int, complaint: str) -> ReportRefused:
    """The sentence for a child that gave nothing."""
    last = complaint.splitlines()[-1] if complaint else ""
    if status == 2 and last.startswith("error: "):
        return ReportRefused(last.removeprefix("error: ")[:_SENTENCE])
    if status in (-signal.SIGXCPU, -signal.SIGKILL):
        return ReportRefused(TOO_SLOW)
    if "MemoryError" in last:
        return ReportRefused(TOO_LARGE)
    logger.error("the reader of reports ended with status %s: %s", status, last[:_SENTENCE])
    return ReportRefused(BROKEN)
