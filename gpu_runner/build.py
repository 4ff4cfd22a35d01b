"""Compiles a candidate's kernels in the sandbox: sources in, one library and a report out.

A compiler is attack surface like any other program: it can be made to read files, to eat memory and never to end.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from gpu_runner.build_cache import BuildCache, Entry, build_cache
from gpu_runner.build_commands import Plan, compiler_version
from gpu_runner.build_commands import key as build_key
from gpu_runner.build_commands import plan as build_plan
from gpu_runner.config import config
from gpu_runner.contracts import BuildReport, BuildTask, Progress, Verdict
from gpu_runner.contracts.entry import ENTRY_FILE
from gpu_runner.hands import HandsError, ProgressSink
from gpu_runner.sandbox import (
    ChildCrashed,
    ChildError,
    ChildMemory,
    ChildOutputLimit,
    ChildTimedOut,
    Memory,
    Sandbox,
    SandboxSpec,
)
from gpu_runner.sandbox.output import Capture

MAX_LIBRARY_BYTES = 64 << 20
MAX_DIAGNOSTICS = 10
_GCC_ERROR = re.compile(r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+)(?::\d+)?: (?:fatal )?error: (?P<text>.*)$", re.MULTILINE)
_NVCC_ERROR = re.compile(
    r"^(?P<file>[^\s(][^(\n]*)\((?P<line>\d+)\): (?:catastrophic )?error(?: #\S+)?: (?P<text>.*)$", re.MULTILINE
)
_NO_ENTRY = re.compile(r"^.*required symbol [`'](?P<symbol>\w+)' not defined.*$", re.MULTILINE)


def build(
    task: BuildTask, progress: ProgressSink = lambda _: None, cancelled: Callable[[], bool] = lambda: False
) -> BuildReport:
    """Builds all of `kernels/` into one library, or finds it in the cache. What is wrong with the sources is in the report.

    Raises HandsError for troubles of this machine and Cancelled.
    """
    return build_library(task, progress, cancelled)[0]


def build_library(
    task: BuildTask,
    progress: ProgressSink = lambda _: None,
    cancelled: Callable[[], bool] = lambda: False,
    sanitizer: str = "",
) -> tuple[BuildReport, bytes]:
    """As `build`, with the library's bytes; none where nothing was built. So a library that the cache has lost comes back.

    `sanitizer`: see `build_commands.plan`.
    """
    began = time.monotonic()
    if not task.candidate.kernel_sources:
        return BuildReport(ok=True), b""
    try:
        plan = build_plan(task.candidate, task.target, sanitizer=sanitizer)
    except ValueError as error:
        return _failed(str(error), diagnostics=(str(error),)), b""
    for compiler in sorted({command[0] for _, command in plan.compile}):
        if not compiler_version(compiler):
            raise HandsError(
                f"The compiler {compiler} was not found on this runner; install it, or set RUNNER_CXX or RUNNER_NVCC."
            )
    cache = build_cache()
    key = build_key(task.candidate, task.target, sanitizer)
    if (found := cache.read(key)) is not None:
        return _built(key, found[0], cached=True), found[1]
    return _compile(task, plan, key, cache, progress, cancelled, began)


def _compile(
    task: BuildTask,
    plan: Plan,
    key: str,
    cache: BuildCache,
    progress: ProgressSink,
    cancelled: Callable[[], bool],
    began: float,
) -> tuple[BuildReport, bytes]:
    log = Capture()

    def told(payload: dict[str, Any]) -> None:
        text = str(payload.get("text", ""))
        log.feed(text.encode("utf-8", "replace"))
        progress(Progress(kind="log", payload={"stream": "build", "text": text}))

    files = {path: text for path, text in task.candidate.files.items() if path.startswith("kernels/")} | plan.added
    order = {
        "compile": [{"source": source, "command": command} for source, command in plan.compile],
        "link": plan.link,
        "libraries": plan.libraries,
        "library": plan.library,
        "jobs": config().threads,
    }
    command = plan.summary

    def failed(sentence: str, verdict: Verdict = Verdict.BUILD_FAILED) -> tuple[BuildReport, bytes]:
        if sentence:
            log.feed(f"{sentence}\n".encode())
        report = _failed(log.text, verdict, command, _diagnostics(log.text), time.monotonic() - began)
        return report, b""

    spec = SandboxSpec(role="builder", limits=task.limits, files=files)
    try:
        with Memory.create(MAX_LIBRARY_BYTES, "stitchweb-library") as memory, Sandbox.start(spec) as sandbox:
            answer = sandbox.request("build", order, [memory.fd], on_progress=told, cancelled=cancelled)
            if answer.get("ok") is not True:
                killed = sandbox.memory_kills > 0
                return failed(f"The compiler used more than {task.limits.memory_mib} MiB of memory." if killed else "")
            size = answer.get("size")
            if not isinstance(size, int) or not 0 < size <= MAX_LIBRARY_BYTES:
                return failed("The builder answered with a library of an impossible size.")
            library = memory.read(size)
            kernels = tuple(str(name)[:1000] for name in answer.get("kernels", [])[:500])
    except ChildTimedOut:
        return failed(f"The build did not finish within {task.limits.wall_s:g} s and was ended.", Verdict.TIMED_OUT)
    except ChildMemory:
        return failed(f"The compiler used more than {task.limits.memory_mib} MiB of memory and was ended.")
    except (ChildError, ChildCrashed, ChildOutputLimit) as error:
        return failed(error.sentence)
    entry = cache.store(key, library, time.monotonic() - began, command, log.text, kernels)
    return _built(key, entry, cached=False), library


def artifact_bytes(artifact: str) -> bytes | None:
    """The library with this content address, or None when this runner's cache does not have it: build it again."""
    found = build_cache().read(artifact)
    return found[1] if found is not None else None


def _built(key: str, entry: Entry, cached: bool) -> BuildReport:
    kept = replace(entry, seconds=0.0) if cached else entry
    return BuildReport(
        ok=True, artifact=key, cached=cached, command=kept.command, log=kept.log, seconds=kept.seconds, size=kept.size,
        kernels=kept.kernels,
    )  # fmt: skip


def _failed(
    log: str,
    verdict: Verdict = Verdict.BUILD_FAILED,
    command: tuple[str, ...] = (),
    diagnostics: tuple[str, ...] = (),
    seconds: float = 0.0,
) -> BuildReport:
    return BuildReport(ok=False, verdict=verdict, command=command, log=log, diagnostics=diagnostics, seconds=seconds)


def _diagnostics(log: str) -> tuple[str, ...]:
    """The first errors of a compiler's output, in its order, each once."""
    found = sorted([*_GCC_ERROR.finditer(log), *_NVCC_ERROR.finditer(log)], key=lambda match: match.start())
    lines = dict.fromkeys(f"{match['file']}:{match['line']}: {match['text'].strip()}" for match in found)
    if (lost := _NO_ENTRY.search(log)) is not None:
        lines[f'{ENTRY_FILE} names the function {lost["symbol"]}, which no source of kernels/ defines with extern "C"'] = None
    return tuple(lines)[:MAX_DIAGNOSTICS]
