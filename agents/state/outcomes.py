"""Steps, and what they bring back. `at` is the time a step ended, `seconds` how long it took."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from agents.diagnosis import Diagnosis
from agents.state.parts import AnalysisSummary, Control, Decision, Rating, Todo
from agents.state.words import Status, StopCause, Usage
from gpu_runner.contracts import BlobRef, BuildReport, CheckReport, Contract, TimingReport

StepKind = Literal["analyse", "plan", "code", "build", "check", "time", "profile", "decide", "confirm"]
HANDS: frozenset[str] = frozenset({"analyse", "build", "check", "time", "profile", "confirm"})


class Step(Contract):
    """One thing to do next. `index` counts steps of the run; (run, index) is its idempotency key.

    `confirm` re-times the best candidate with every arm, in fresh processes, and re-checks it under the run's full protocol.
    """

    index: int
    kind: StepKind
    candidate: str | None = None
    todo: str | None = None
    lane: int | None = None  # of the round under way, counted from 1

    @property
    def by_hands(self) -> bool:
        return self.kind in HANDS


class Stop(Contract):
    """Nothing to do: ended, paused or waiting for a person."""

    status: Status
    cause: StopCause | None = None


class _Outcome(Contract):
    step: int
    at: float
    seconds: float = 0.0


class Analysed(_Outcome):
    kind: Literal["analysed"] = "analysed"
    analysis: AnalysisSummary


class Planned(_Outcome):
    kind: Literal["planned"] = "planned"
    todos: tuple[Todo, ...]
    note: str = ""
    usage: Usage = Usage()


class Coded(_Outcome):
    """`title` says in a few words what changed. `todo` None: made by hand."""

    kind: Literal["coded"] = "coded"
    files: dict[str, BlobRef]
    sha256: str
    fingerprint: str = ""
    title: str
    todo: str | None
    parent: str | None
    skill: Literal["from_scratch", "feedback"] = "from_scratch"
    note: str = ""
    usage: Usage = Usage()


class Built(_Outcome):
    kind: Literal["built"] = "built"
    report: BuildReport
    log: BlobRef | None = None


class Checked(_Outcome):
    kind: Literal["checked"] = "checked"
    report: CheckReport
    log: BlobRef | None = None


class Timed(_Outcome):
    """Also answers `confirm`, then with the full CheckReport beside it."""

    kind: Literal["timed"] = "timed"
    report: TimingReport
    check: CheckReport | None = None


class Profiled(_Outcome):
    kind: Literal["profiled"] = "profiled"
    blob: BlobRef
    finding: str = ""
    coverage: float | None = None
    diagnosis: Diagnosis | None = None


class Decided(_Outcome):
    """`ratings`: a judge's, of the candidates that `agents.loop.ties.tied` names."""

    kind: Literal["decided"] = "decided"
    decision: Decision
    ratings: tuple[Rating, ...] = ()
    usage: Usage = Usage()


class Unusable(_Outcome):
    """An engineer's answer that could not be used: counted as an attempt, shown, never a crash. `spent`: nothing was asked, for
    the worst case of it would overrun this part of the budget, so the run ends. `ratings`: as of
    `Decided`."""

    kind: Literal["unusable"] = "unusable"
    reason: str
    ratings: tuple[Rating, ...] = ()
    spent: StopCause | None = None
    usage: Usage = Usage()


class Broken(_Outcome):
    """Ours or the machine's fault, not the program's: retried a few times, then the run fails with the cause."""

    kind: Literal["broken"] = "broken"
    reason: str


class Steered(_Outcome):
    """A person's request, taken in between steps."""

    kind: Literal["steered"] = "steered"
    control: Control


Outcome = Annotated[
    Analysed | Planned | Coded | Built | Checked | Timed | Profiled | Decided | Unusable | Broken | Steered,
    Field(discriminator="kind"),
]
