"""The program that is profiled: its processes, each for one profiler, all behind the boundary."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from gpu_runner import turns
from gpu_runner.contracts import ProfileTask
from gpu_runner.job import Job
from gpu_runner.peers import CandidatePeer, ReferencePeer, seed
from gpu_runner.session import Session, laid_out
from gpu_runner.values import Value, closing

BUDGET_S = 0.4  # of unprofiled forwards


@dataclass
class Subject:
    """A candidate, or the reference where the task gives none, with the inputs and weights that it gets.

    `files`: what is laid out for it, path to content. `weights` None: as constructed.
    """

    job: Job
    task: ProfileTask
    init_inputs: Any
    inputs: Value
    weights: Value | None
    files: dict[str, str | bytes]

    @property
    def role(self) -> Literal["reference", "candidate"]:
        return "reference" if self.task.candidate is None else "candidate"

    def under_torch(self) -> dict[str, Any]:
        """What a fresh process answers that ran some forwards under torch.profiler, alone on the device. ProgramRefused,
        ProgramEnded."""
        if self.weights is None:
            with ReferencePeer.start(self.job, self.task.source) as peer, turns.alone(self.job):
                return _mapping(peer.about("profile", self.inputs, budget_s=BUDGET_S))
        with CandidatePeer.start(self.job, {p.removeprefix("candidate/"): text for p, text in self.files.items()}) as candidate:
            assert self.task.candidate is not None
            candidate.load(self.init_inputs, coverage=True, entry=self.task.candidate.entry)
            candidate.load_weights(self.weights)
            with turns.alone(self.job):
                return _mapping(candidate.profile(self.inputs, BUDGET_S))

    def order(self, iterations: int) -> dict[str, Any]:
        """What `child.profiled` is told; the memories' places are filled in where it runs."""
        job, task = self.job, self.task
        load: dict[str, Any] = {"device": job.device, "mode": job.mode, "precision": job.precision}
        if task.candidate is None:
            load["entry"] = task.source.entry
        else:
            entry = task.candidate.entry
            load |= {"init_inputs": self.init_inputs, "coverage": False, "entry": entry.order() if entry else None}
        memories = {"inputs": self.inputs} | ({"weights": self.weights} if self.weights is not None else {})
        return {
            "role": self.role,
            "load": load,
            "iterations": iterations,
            "inputs": None,
            "weights": None,
            "memories": list(memories),
            **{name: {"manifest": value.manifest} for name, value in memories.items()},
        }

    def memories(self) -> list[Any]:
        """In the order of `order()["memories"]`."""
        return [value.memory for value in (self.inputs, self.weights) if value is not None]


@contextmanager
def subject(job: Job, task: ProfileTask, session: Session) -> Iterator[Subject]:
    """The program of a task, while its inputs and weights are held. NotBuilt, ProgramRefused, ProgramEnded."""
    reference = session.reference(job, task.source)
    files: dict[str, str | bytes] = {"reference.py": task.source.text}
    if task.candidate is not None:
        files = {f"candidate/{path}": text for path, text in laid_out(job, task.candidate, task.target)[0].items()}
    drawn = reference.draw(seed())
    if drawn is None:
        raise ValueError("a plain draw always gives inputs")
    with closing(drawn[0]):
        init = reference.facts.get("init_inputs")
        if task.candidate is None:
            yield Subject(job, task, init, drawn[0], None, files)
            return
        with closing(weights := reference.weights()):
            yield Subject(job, task, init, drawn[0], weights, files)


def _mapping(answer: Any) -> dict[str, Any]:
    return answer if isinstance(answer, dict) else {}
