"""What the hands are asked to do, and what they say while they do it."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from gpu_runner.contracts.base import Contract
from gpu_runner.contracts.candidate import CandidateFiles
from gpu_runner.contracts.program import Mode, Precision, Source
from gpu_runner.contracts.protocol import Protocol
from gpu_runner.contracts.reports import CheckRow, Replay

BESIDE_A_GPU_MIB = 49152


class Limits(Contract):
    """Bounds of one task. Seconds of wall clock, MiB of memory per sandbox, cut by a runner to what its machine can spare."""

    wall_s: float = 300.0
    memory_mib: int = 8192
    processes: int = 256
    tmp_mib: int = 1024
    output_kib: int = 1024

    @staticmethod
    def of(target: str, wall_s: float) -> Limits:
        """The usual ones on a target. Tensors of a GPU's size pass through the host's memory: inputs, results and the truth."""
        return Limits(wall_s=wall_s) if target == "cpu" else Limits(wall_s=wall_s, memory_mib=BESIDE_A_GPU_MIB)


class _Task(Contract):
    target: str  # "cpu", or an architecture such as "sm_90"
    limits: Limits = Limits()


class AnalyseTask(_Task):
    """Run the reference once in the sandbox and say what it is. Answered by `Analysis`."""

    kind: Literal["analyse"] = "analyse"
    source: Source
    protocol: Protocol
    mode: Mode = Mode.EVAL
    precision: Precision = Precision.AS_REFERENCE


class BuildTask(_Task):
    """Compile the candidate's kernels. Answered by `BuildReport`."""

    kind: Literal["build"] = "build"
    candidate: CandidateFiles


class CheckTask(_Task):
    """Compare the candidate with the reference. Answered by `CheckReport`.

    With `replay` (of a row of an earlier report) that draw is made again and nothing else: the report has this one row, and its
    verdict is about this draw.
    """

    kind: Literal["check"] = "check"
    source: Source
    candidate: CandidateFiles
    protocol: Protocol
    mode: Mode = Mode.EVAL
    precision: Precision = Precision.AS_REFERENCE
    require_own_kernels: bool = False  # reject a right program that calls libraries alone
    replay: Replay | None = None
    evidence: bool = False  # whether the report carries what it rests on


class TimeTask(_Task):
    """Time the baseline arms and, where given, the candidate, interleaved. Answered by `TimingReport`."""

    kind: Literal["time"] = "time"
    source: Source
    candidate: CandidateFiles | None
    protocol: Protocol
    mode: Mode = Mode.EVAL
    precision: Precision = Precision.AS_REFERENCE
    evidence: bool = False


class ProfileTask(_Task):
    """Profile the candidate, or the reference where none is given. Answered by `ProfileReport`.

    `fresh`: measure also where a profile of the same reference, device and versions is kept. `brief`: under torch.profiler
    alone; on a GPU each further profiler starts processes of its own, which import torch again.
    """

    kind: Literal["profile"] = "profile"
    source: Source
    candidate: CandidateFiles | None
    mode: Mode = Mode.EVAL
    precision: Precision = Precision.AS_REFERENCE
    fresh: bool = False
    brief: bool = False


Task = Annotated[AnalyseTask | BuildTask | CheckTask | TimeTask | ProfileTask, Field(discriminator="kind")]


class TimingRound(Contract):
    """A round of an arm that has been timed; its median in milliseconds."""

    arm: str
    round: int
    rounds: int
    median_ms: float | None


class Progress(Contract):
    """Something worth showing before the report is there.

    `log`: {"stream": "build" | "reference" | "candidate", "text": str}; `check`: a CheckRow; `timing`: a TimingRound; `stage`:
    {"text": str}, a short sentence of what is being done. What is no row or round is refused here: what was told once is read
    again for as long as there is its run.
    """

    kind: Literal["log", "check", "timing", "stage"]
    payload: dict[str, Any]

    @model_validator(mode="after")
    def _readable(self) -> Self:
        if self.kind == "check":
            CheckRow.model_validate(self.payload)
        elif self.kind == "timing":
            TimingRound.model_validate(self.payload)
        return self
