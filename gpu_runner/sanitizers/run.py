"""Runs a candidate under the sanitizers: built anew where they need it, in a sandbox of its own, for a call or two."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass

from gpu_runner import turns
from gpu_runner.build import build_library
from gpu_runner.contracts import BuildTask, CandidateFiles, CheckTask
from gpu_runner.contracts.candidate import LIBRARY_FILE
from gpu_runner.job import Job
from gpu_runner.peers import CandidatePeer, ReferencePeer, seed
from gpu_runner.sandbox import SandboxUnavailable
from gpu_runner.sandbox.spec import Tool
from gpu_runner.sanitizers import reports
from gpu_runner.sanitizers.findings import Found, Sanitized
from gpu_runner.sanitizers.tools import CUDA_TOOLS, NoTool, preloaded, under_compute_sanitizer
from gpu_runner.values import ProgramEnded, ProgramRefused, Value, closing

LIMIT_S = {"cpu": 60.0, "cuda": 30.0}  # of one tool's calls; nobody can measure on a GPU meanwhile
SLOWEST = "racecheck"  # hundreds of times slower than the program: it sees as little of a batch as may be
CALLS = {"cpu": 2, "cuda": 1}  # the second one on the CPU uses what the first one kept
_THREADS = re.compile(r"\bstd::(thread|jthread|async|execution)\b|\bpthread_create\b|\bthrd_create\b")
_OPENMP = re.compile(r"#\s*pragma\s+omp\b|\b_Pragma\s*\(\s*\"omp\b")
LEAST_S = 10.0  # of the task's time: with less nothing is begun
NO_TIME = "the time of the check was used up before"
NO_THREADS = "its sources start no threads"
OPENMP = "it uses OpenMP, whose threads GCC's thread sanitizer does not see waiting for one another"


@dataclass
class Sanitizers:
    """The tools that fit a target. `told` gets each tool's result.

    `batch`: a kind of smaller batch (see `child.variants.resized`) on which the program is known to be right: one that it was
    not made for would prove nothing. Empty: the declared shapes. `least`: the smallest of those, for the slowest tool.
    """

    job: Job
    task: CheckTask
    reference: ReferencePeer
    batch: str
    least: str
    told: Callable[[Sanitized], None]

    def run(self) -> list[Sanitized]:
        """All that fit, at the same time. Nothing where there are no native sources: the rest is Python's and torch's."""
        tools = self._tools()
        if not tools:
            return []
        if self.job.left() < LEAST_S:
            late = [Sanitized(tool, not_run=NO_TIME) for tool in tools]
            for result in late:
                self.told(result)
            return late
        self.job.stage(f"watching memory ({', '.join(tools)})")
        kinds = {tool: self.least if tool == SLOWEST else self.batch for tool in tools}
        drawn = {kind: self._drawn(kind) for kind in dict.fromkeys(kinds.values())}
        weights = self.reference.weights()
        made: list[Sanitized] = []
        with (
            closing(*(inputs for inputs, _ in drawn.values()), weights),
            ThreadPoolExecutor(len(tools), "sanitizer") as executor,
        ):
            begun = [
                executor.submit(self._timed, tool, drawn[kind][0], weights, drawn[kind][1]) for tool, kind in kinds.items()
            ]
            for waiting in begun:
                made.append(waiting.result())
                self.told(made[-1])
        return made

    def _drawn(self, kind: str) -> tuple[Value, str]:
        """(inputs, their shape for people) of that kind of batch."""
        drawn = self.reference.draw(seed(), batch=kind) if kind else None
        shape = f"a batch of {str(drawn[1].get('batch'))[:10]}" if drawn is not None else "the declared shapes"
        drawn = drawn or self.reference.draw(seed())
        if drawn is None:
            raise ValueError("a plain draw always gives inputs")
        return drawn[0], shape

    def _tools(self) -> tuple[str, ...]:
        if not self.task.candidate.kernel_sources:
            return ()
        return tuple(CUDA_TOOLS) if self.job.device != "cpu" else ("address", "thread")

    def _timed(self, tool: str, inputs: Value, weights: Value, shape: str) -> Sanitized:
        began = time.monotonic()
        result = Sanitized(tool, shape=shape)
        try:
            result.not_run = self._pointless(tool)
            if not result.not_run:
                result.found, result.not_run = self._watch(tool, inputs, weights)
        except NoTool as error:
            result.not_run = str(error)
        except SandboxUnavailable as error:
            result.not_run = f"it does not start in the sandbox: {_said(error.output) or _said(str(error))}"
        result.seconds = round(time.monotonic() - began, 3)
        return result

    def _pointless(self, tool: str) -> str:
        texts = [text for path, text in self.task.candidate.files.items() if path.startswith("kernels/")]
        if tool != "thread":
            return ""
        if any(_OPENMP.search(text) for text in texts):
            return OPENMP
        return "" if any(_THREADS.search(text) for text in texts) else NO_THREADS

    def _watch(self, tool: str, inputs: Value, weights: Value) -> tuple[list[Found], str]:
        """(reports, why there are none that count)."""
        started = under_compute_sanitizer(tool) if tool in CUDA_TOOLS else preloaded(tool)
        library = _built(self.job, self.task.candidate, self.task.target, "" if tool in CUDA_TOOLS else tool)
        trouble, output = self._called(tool, started, library, inputs, weights)
        found = read(tool, output, self.task.candidate)
        if trouble is None or found:
            return found, ""
        return [], f"the program did not come through under it: {_said(trouble)}"

    def _called(self, tool: str, started: Tool, library: bytes, inputs: Value, weights: Value) -> tuple[str | None, str]:
        """(how it ended before its time, what it printed)."""
        device = "cpu" if self.job.device == "cpu" else "cuda"
        files: dict[str, str | bytes] = {**self.task.candidate.files, LIBRARY_FILE: library}
        peer = CandidatePeer.start(self.job, files, started)
        try:
            trouble = None
            with turns.beside(self.job):
                peer.load(self.reference.facts["init_inputs"], entry=self.task.candidate.entry)
                peer.load_weights(weights)
            with turns.watching(self.job) if tool == SLOWEST else nullcontext(), turns.beside(self.job, long=True):
                peer.watched(inputs, CALLS[device], LIMIT_S[device])
        except ProgramEnded as error:
            trouble = error.sentence
        except ProgramRefused as error:
            trouble = error.refusal.sentence
        finally:
            peer.close()
        return trouble, peer.sandbox.output


def read(tool: str, output: str, candidate: CandidateFiles) -> list[Found]:
    """The tool's reports in what the process printed."""
    files = [path for path in candidate.files if path.startswith("kernels/")]
    if tool in CUDA_TOOLS:
        return reports.compute(output, tool, files)
    return reports.thread(output, files) if tool == "thread" else reports.address(output, files)


def _built(job: Job, candidate: CandidateFiles, target: str, sanitizer: str) -> bytes:
    order = BuildTask(target=target, limits=job.limits, candidate=candidate)
    report, library = build_library(order, cancelled=job.cancelled, sanitizer=sanitizer)
    if not report.ok:
        first = report.diagnostics[0] if report.diagnostics else report.log.strip()[-200:]
        raise NoTool(f"it does not build with it: {first}")
    return library


def _said(text: str) -> str:
    return " ".join(text.split())[:200]
