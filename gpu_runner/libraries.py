"""A library that one host built is used by another: sent beside the report of its build, fetched before it is loaded.

What makes it the same is the key of the build cache (`build_commands.key`). A host whose own key is another one, as its
compiler or flags are, builds for itself. A library is as trusted as the host that built it, which is as much as the program it
is a part of: its digest is checked, and it is loaded in the candidate's sandbox alone.
"""

from __future__ import annotations

import logging

from pydantic import ValidationError

from gpu_runner.build import MAX_LIBRARY_BYTES, artifact_bytes
from gpu_runner.build_cache import build_cache
from gpu_runner.build_commands import key as build_key
from gpu_runner.contracts import AnalyseTask, BuildReport, BuildTask, CandidateFiles, Library, Progress, Task, digest
from gpu_runner.contracts.candidate import LIBRARY_FILE
from gpu_runner.hands import ProgressSink
from gpu_runner.remote import JobClient

log = logging.getLogger(__name__)


def hand_over(client: JobClient, report: BuildReport) -> None:
    """Send the library of a build to the site, where it wants it. Without it the build is as good: others build for themselves.

    Raises Gone when the job has become another's.
    """
    if not client.keeps or not report.artifact or (library := artifact_bytes(report.artifact)) is None:
        return
    try:
        client.artifact(LIBRARY_FILE, library)
    except OSError as trouble:
        log.warning("the site did not take the library that was built: %s", trouble)


def take_over(client: JobClient, task: Task, progress: ProgressSink) -> None:
    """Have the library of the task's candidate in this host's cache, where another host built it and it is not there yet.

    Why one is not used is said as a line of the build's log; then the task builds for itself. Raises Gone.
    """
    if client.library is None or isinstance(task, AnalyseTask | BuildTask) or task.candidate is None:
        return
    if why := _fetched(client, task.candidate, task.target):
        progress(Progress(kind="log", payload={"stream": "build", "text": f"{why} It is built here.\n"}))


def _fetched(client: JobClient, candidate: CandidateFiles, target: str) -> str:
    """Why the library is not used, in a sentence; empty where it is, or is not needed."""
    try:
        offered = Library.model_validate(client.library)
        key = build_key(candidate, target)
    except ValidationError:
        return "The site names a library that this runner does not understand; update it."
    except ValueError:
        return ""  # no such program can be built: the task says so
    cache, report = build_cache(), offered.report
    if cache.path(key) is not None:
        return ""
    if key != report.artifact:
        return "The library from another host was built by another compiler, or for another machine than this one."
    try:
        library = client.built(MAX_LIBRARY_BYTES)
    except OSError as trouble:
        return f"The library from another host could not be fetched: {trouble}."
    if digest(library) != offered.sha256:
        return "The library from another host has not the digest that its build was reported with, and is not used."
    cache.store(key, library, report.seconds, report.command, report.log, report.kernels)
    return ""
