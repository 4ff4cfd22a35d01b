"""What a timing records: everything the words over a speed rest on (`speed`), and nothing that follows from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gpu_runner.conditions import Conditions
from gpu_runner.contracts import Precision, Protocol
from gpu_runner.stats import median
from gpu_runner.verdict import Trouble

CANDIDATE = "candidate"
EAGER = "eager"


@dataclass
class Samples:
    """One arm's measurements: nanoseconds by round, and the parent's clock minus the claim for every call."""

    rounds: list[list[float]] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)
    unclaimed: list[float] = field(default_factory=list)  # what its first thread ran meanwhile, minus the claim
    before: list[float] = field(default_factory=list)  # the parent's clock around laying out the inputs
    before_cpu: list[float] = field(default_factory=list)  # what its processes ran from there until the call
    woken: list[float] = field(default_factory=list)  # the parent's clock around waking its threads for the call
    others: list[float] = field(default_factory=list)  # share of a call that other processes took from it
    after: list[float] = field(default_factory=list)  # and around taking the results out, where they have eager's strides

    @property
    def all(self) -> list[float]:
        return [value for samples in self.rounds for value in samples]

    @property
    def medians(self) -> list[float]:
        return [median(samples) for samples in self.rounds]


@dataclass
class WrongCall:
    """A result of a timed call that was not eager's: whose, and the judge's numbers."""

    arm: str
    numbers: dict[str, Any]
    late: bool = False  # it changed after the call had returned
    before: bool = False  # it is the result of the sample before
    first: bool = False  # the very first one that was compared
    lazy: str = ""  # the type of a result that is no plain tensor


@dataclass
class Known:
    """Baselines that were measured before this candidate: eager and compiled arms side by side. `measured`: when, in UTC."""

    samples: dict[str, Samples]
    errors: dict[str, str] = field(default_factory=dict)
    build_s: dict[str, float] = field(default_factory=dict)
    measured: str = ""


@dataclass
class SpeedEvidence:
    """Everything the words over a timing rest on. `second`: eager and the candidate once more, in fresh processes.

    `drift`: of results of timed calls, how far the candidate's lie from eager's, in units of eager's own error (RMS).
    `known`: the baselines where they were not measured with this candidate. `must_read`: bytes that lie in memory before a
    call and that any program must read. `error_ratio`: the candidate's error in units of eager's own. `errors`: why an arm has
    no samples.
    """

    protocol: Protocol
    precision: Precision
    samples: dict[str, Samples] = field(default_factory=dict)
    second: dict[str, Samples] | None = None
    known: Known | None = None
    errors: dict[str, str] = field(default_factory=dict)
    build_s: dict[str, float] = field(default_factory=dict)
    degenerate: bool = False
    inputs_constant: bool = False
    error_ratio: float | None = None
    drift: list[float] = field(default_factory=list)
    must_read: int = 0
    bandwidth_bps: float | None = None
    wrong: WrongCall | None = None
    trouble: Trouble | None = None
    cores: int = 1  # that this process may use
    conditions: list[Conditions] = field(default_factory=list)  # of every round, in order
    busy: list[float] = field(default_factory=list)  # what the candidate ran while other arms were called, in cores
    facts: dict[str, Any] = field(default_factory=dict)
