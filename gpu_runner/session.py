"""The processes that outlive a task: references and the judge. A loop asks about one program many times, and importing torch
and constructing the program each time would cost more than the question. Candidates always get a fresh process."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Self
from typing import Protocol as TypingProtocol

from gpu_runner import ceilings
from gpu_runner.build import build_library
from gpu_runner.contracts import BuildTask, CandidateFiles, Protocol, Source, digest
from gpu_runner.contracts.candidate import LIBRARY_FILE
from gpu_runner.device import device_info, evict_bytes
from gpu_runner.hands import HandsError
from gpu_runner.job import Job
from gpu_runner.judging import JudgePeer
from gpu_runner.peers import CandidatePeer, Peer, ReferencePeer
from gpu_runner.probing import Facts, probe
from gpu_runner.values import ProgramEnded, closing

KEPT = 2  # programs, each with its compiled arms: a task holds several arms of one program at a time


class Background(TypingProtocol):
    """Work on a program that goes on between tasks."""

    def stop(self) -> None:
        """End it, and wait for its end."""


class NotBuilt(Exception):
    """The candidate's kernels do not build. The message is a sentence."""

    def __init__(self, sentence: str, log: str) -> None:
        super().__init__(sentence)
        self.log = log


def laid_out(job: Job, candidate: CandidateFiles, target: str) -> tuple[dict[str, str | bytes], tuple[str, ...]]:
    """(the candidate's files with its built library, names of the kernels in that). Raises NotBuilt."""
    files: dict[str, str | bytes] = dict(candidate.files)
    kernels: tuple[str, ...] = ()
    if candidate.kernel_sources:
        order = BuildTask(target=target, limits=job.limits, candidate=candidate)
        report, library = build_library(order, job.progress, job.cancelled)
        if not report.ok:
            first = report.diagnostics[0] if report.diagnostics else "see the log"
            raise NotBuilt(f"The kernels do not build: {first}", report.log)
        files[LIBRARY_FILE] = library
        kernels = report.kernels
    return files, kernels


class Opening:
    """A candidate's process being made in the background: build, start. `load` waits for it and runs the program's own code."""

    def __init__(self, job: Job, candidate: CandidateFiles, target: str) -> None:
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="stitchweb-candidate")
        self._entry = candidate.entry
        self._future: Future[CandidatePeer] = self._executor.submit(self._start, job, candidate, target)
        self._executor.shutdown(wait=False)

    @staticmethod
    def _start(job: Job, candidate: CandidateFiles, target: str) -> CandidatePeer:
        files, kernels = laid_out(job, candidate, target)
        peer = CandidatePeer.start(job, files)
        peer.kernels = kernels
        return peer

    def load(self, init_inputs: object, coverage: bool = False) -> CandidatePeer:
        """The candidate, loaded. Raises NotBuilt, ProgramRefused, ProgramEnded."""
        peer = self._future.result()
        try:
            peer.load(init_inputs, coverage, self._entry)
        except BaseException:
            peer.close()
            raise
        return peer

    def abandon(self) -> None:
        """End what was started."""
        self._future.add_done_callback(lambda f: None if f.exception() else f.result().close())


@dataclass
class Session:
    """Keeps processes by what they run. Not thread-safe, as the hands do one task at a time, but for `reference` and `forget`:
    the arms of a program are started beside each other."""

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._judge: JudgePeer | None = None
        self._references: dict[tuple[str, str], ReferencePeer] = {}  # (program, arm), the longest unused first
        self._facts: dict[str, Facts] = {}
        self._counts: dict[str, dict[str, Any]] = {}
        self._measured: set[str] = set()  # targets whose ceilings were measured
        self.background: dict[str, Background] = {}  # by program

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End every process kept. What is known of programs stays."""
        while self.background:
            self.background.popitem()[1].stop()
        for peer in [*self._references.values(), *([self._judge] if self._judge else [])]:
            peer.close()
        self._references.clear()
        self._judge = None

    @staticmethod
    def key(job: Job, source: Source) -> str:
        """What makes two questions about the same program."""
        parts: Mapping[str, object] = {
            "source": source.sha256,
            "device": job.device,
            "mode": job.mode,
            "precision": job.precision,
            "limits": job.held_limits.model_dump(),
        }
        return digest(dict(parts))

    def judge(self, job: Job) -> JudgePeer:
        """The judge. Raises HandsError when it cannot be started."""
        if self._judge is None:
            try:
                self._judge = JudgePeer.start(job)
            except ProgramEnded as error:
                raise HandsError(f"The judge could not be started: {error}") from error
        self._judge.job = job
        return self._judge

    def learn_ceilings(self, job: Job, target: str) -> None:
        """Measure what the device can do, once for this session."""
        if target not in self._measured:
            self._measured.add(target)
            info = device_info(target)
            ceilings.learn(info.name, info.torch, self.judge(job).ceilings(evict_bytes(job.device)))

    def counts(self, job: Job, source: Source) -> dict[str, Any]:
        """What one forward of a reference computes and reads; counted once."""
        key = self.key(job, source)
        if key not in self._counts:
            reference = self.reference(job, source)
            drawn = reference.draw(1)
            if drawn is None:
                raise ValueError("a plain draw always gives inputs")
            with closing(drawn[0]):
                counts = reference.about("counts", drawn[0])
            self._counts[key] = counts if isinstance(counts, dict) else {}
        return self._counts[key]

    def reference(self, job: Job, source: Source, arm: str = "") -> ReferencePeer:
        """The program's process with its weights as constructed; `arm` names a mode of torch.compile."""
        program = self.key(job, source)
        key = program, arm
        with self._lock:
            peer = self._references.pop(key, None)
            if peer is not None and peer.sandbox.closed:  # ended by a task that was broken off
                peer = None
            if peer is None:
                # Only other programs make room: every arm of this one may be under measurement.
                others = list(dict.fromkeys(name for name, _ in self._references if name != program))
                for name in others[: max(0, len(others) - (KEPT - 1))]:
                    for stale in [k for k in self._references if k[0] == name]:
                        self._references.pop(stale).close()
        peer = peer or ReferencePeer.start(job, source, compile=arm or None)
        peer.job = job
        with self._lock:
            self._references[key] = peer
        return peer

    def peers(self, job: Job, source: Source) -> tuple[ReferencePeer, JudgePeer]:
        """Both, started at the same time."""
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="stitchweb-judge") as executor:
            judge = executor.submit(self.judge, job)
            reference = self.reference(job, source)
            return reference, judge.result()

    def forget(self, job: Job, source: Source, arm: str = "") -> None:
        """End a program's process: it failed, or its state is unknown."""
        with self._lock:
            peer: Peer | None = self._references.pop((self.key(job, source), arm), None)
        if peer is not None:
            peer.close()

    def keep_only(self, program: str) -> None:
        """End the processes of every other program (by `key`): one that works on by itself would slow what is measured."""
        with self._lock:
            others = [self._references.pop(key) for key in list(self._references) if key[0] != program]
        for peer in others:
            peer.close()

    def forget_modes(self, program: str) -> None:
        """End the processes of a program (by `key`) under torch.compile."""
        with self._lock:
            stale = [self._references.pop(key) for key in list(self._references) if key[0] == program and key[1]]
        for peer in stale:
            peer.close()

    def facts(self, job: Job, source: Source, protocol: Protocol) -> Facts:
        """What is known of a reference; found out once."""
        key = self.key(job, source) + protocol.id
        reference, judge = self.peers(job, source)
        judge.allclose = protocol.allclose
        if key not in self._facts:
            self.learn(job, source, protocol, probe(reference, judge, protocol))
        return self._facts[key]

    def learn(self, job: Job, source: Source, protocol: Protocol, facts: Facts) -> None:
        """Remember facts found in passing."""
        self._facts[self.key(job, source) + protocol.id] = facts
