"""The state of one run: one typed, serialisable object that the reducer in `agents.loop` moves.

Big texts (sources, graphs, logs, profiles) are blobs, addressed by content and held by the shell's `BlobStore`; the state
holds references. Times are seconds since the epoch and enter only as data, the reducer never asks a clock.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal, Protocol

from pydantic import Field

from agents.diagnosis import Diagnosis
from agents.model_choice import ModelChoice, Role
from gpu_runner.contracts import (
    BlobRef,
    BuildReport,
    CheckReport,
    Contract,
    HackClass,
    Label,
    Mode,
    Precision,
    Refusal,
    TimingReport,
    Verdict,
)
from gpu_runner.contracts import Protocol as VerifyProtocol

SCHEMA_VERSION = 1
REFERENCE = "reference"  # where a profile is asked for: the program itself, not a candidate


class BlobStore(Protocol):
    """Bytes by content. `get` raises KeyError for an unknown address."""

    def put(self, data: bytes) -> BlobRef: ...
    def get(self, ref: BlobRef) -> bytes: ...


class Status(StrEnum):
    """Where a run stands. The first six name the step that is due or under way."""

    QUEUED = "queued"
    ANALYSING = "analysing"
    PLANNING = "planning"
    AWAITING_APPROVAL = "awaiting_approval"
    CODING = "coding"
    BUILDING = "building"
    CHECKING = "checking"
    TIMING = "timing"
    PROFILING = "profiling"
    DECIDING = "deciding"
    PAUSED = "paused"
    FINISHED = "finished"
    CANCELLED = "cancelled"
    FAILED = "failed"

    @property
    def ended(self) -> bool:
        return self in (Status.FINISHED, Status.CANCELLED, Status.FAILED)


class StopCause(StrEnum):
    """Why a run ended. Shown to people through `agents.events.STOP_SENTENCES`."""

    TARGET_REACHED = "target-reached"
    TODOS_DONE = "todos-done"
    BUDGET_ATTEMPTS = "budget-attempts"
    BUDGET_WALL = "budget-wall-time"
    BUDGET_TOKENS = "budget-tokens"
    BUDGET_MONEY = "budget-money"
    BUDGET_DEVICE = "budget-device-seconds"
    NO_GAIN = "no-significant-gain"
    CANCELLED = "cancelled"
    AT_ROOFLINE = "at-the-roofline"
    REFUSED = "refused"
    FAILED = "failed"


class Budget(Contract):
    """What a run may spend. None: not bounded. `device_s` counts seconds the hands were busy for this run."""

    attempts: int = 12
    wall_s: float | None = 900.0
    tokens: int | None = None
    money: float | None = None
    device_s: float | None = None


class Usage(Contract):
    """What a run has spent. `wall_s` excludes pauses and the waiting for a runner. `unpriced`: tokens, of those in and out,
    whose price is not known, so that `money` says nothing of them."""

    attempts: int = 0
    wall_s: float = 0.0
    tokens_in: int = 0
    tokens_out: int = 0
    unpriced: int = 0
    money: float = 0.0
    device_s: float = 0.0


class Options(Contract):
    """What the person chose at the start."""

    target: str = "cpu"
    planner: str = "offline"
    coder: str = "offline"
    verifier: str = "offline"
    models: dict[Role, ModelChoice] = {}  # of the roles that ask one
    prompts: dict[str, BlobRef] = {}  # name: the text that takes the place of ours
    protocol: VerifyProtocol
    mode: Mode = Mode.EVAL
    precision: Precision = Precision.AS_REFERENCE
    require_own_kernels: bool = False  # a right program that calls libraries alone is rejected
    brief_profiles: bool = False  # under torch.profiler alone
    budget: Budget = Budget()
    target_speedup: float | None = None  # stop when the best beats its baseline by this ratio
    approve_plan: bool = False
    patience: int = 4  # verified attempts without a significant gain before the run stops
    replan_failures: int = 3  # failures in a row, in any mixture, before a new plan
    seed: int = 0


TodoStatus = Literal["open", "doing", "done", "no-gain", "failed", "dropped"]


class Todo(Contract):
    """One item of a plan. `predicted` and `measured` are ratios over the program as it stood when the item was tried."""

    id: str
    kind: str  # fuse | reduce | epilogue | layout | memory | algebra | host | other
    title: str
    why: str = ""
    ops: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()  # graph node names, for the engineers
    rows: tuple[str, ...] = ()  # keys of the rows in the reference's profile that it answers
    constraints: tuple[str, ...] = ()
    predicted: float | None = None
    measured: float | None = None
    measured_low: float | None = None
    measured_high: float | None = None
    status: TodoStatus = "open"
    note: str = ""
    data: dict[str, Any] = {}  # the engineer's own, small


class Plan(Contract):
    version: int
    todos: tuple[Todo, ...]
    note: str = ""
    approved: bool = True
    edited: bool = False  # by a person: its order is theirs


CandidateStatus = Literal["coded", "building", "checking", "timing", "profiling", "done"]


class Candidate(Contract):
    """One program. `files` maps path to blob. `timing` is the quick one of the loop, `confirmed` the full one at its end."""

    id: str  # c1, c2, … in order of birth
    parent: str | None  # None: derived from the reference itself
    todo: str | None
    title: str
    skill: Literal["from_scratch", "feedback"] = "from_scratch"
    author: Literal["engineer", "person"] = "engineer"
    files: dict[str, BlobRef]
    sha256: str
    status: CandidateStatus = "coded"
    verdict: Verdict | None = None
    hack: HackClass | None = None
    labels: tuple[Label, ...] = ()
    build: BuildReport | None = None
    check: CheckReport | None = None
    timing: TimingReport | None = None
    confirmed: TimingReport | None = None
    profile: BlobRef | None = None  # a ProfileReport
    diagnosis: Diagnosis | None = None  # what it says to the loop
    retimed: int = 0  # how often it was timed again because noise hid what it seemed to gain
    logs: dict[str, BlobRef] = {}  # "build", "check": the whole log where the report keeps its tail
    finding: str = ""
    note: str = ""

    @property
    def verified(self) -> bool:
        return self.verdict is Verdict.VERIFIED

    @property
    def speedup(self) -> float | None:
        """Ratio over eager, None until measured."""
        report = self.confirmed or self.timing
        return report.over_eager.value if report and report.over_eager else None


Route = Literal["retry", "optimise", "advance", "replan", "stop"]


class Decision(Contract):
    """The Verifier's diagnosis of one candidate and the route it proposes; the reducer's rules bound the route."""

    candidate: str | None
    route: Route
    bottleneck: str = ""
    evidence: tuple[str, ...] = ()
    suggestions: tuple[str, ...] = ()
    sentence: str = ""


class Control(Contract):
    """A person's request. `data`: hint {"text"}; edit_plan {"todos": [{"id", "title", "status"}…]}; branch {"from": id};
    candidate {"files": {path: BlobRef as JSON}, "sha256", "parent", "title"}, made by `agents.steps.hand_made`; profile
    {"candidate": id, or "reference"}."""

    id: str
    kind: Literal["pause", "resume", "cancel", "approve_plan", "edit_plan", "hint", "candidate", "branch", "profile"]
    by: str = ""
    data: dict[str, Any] = {}


class AnalysisSummary(Contract):
    """What the state keeps of an Analysis; the whole (with its graph) is the blob."""

    blob: BlobRef
    refusal: Refusal | None = None
    eager_ms: float | None = None
    flops: int = 0
    bytes: int = 0
    nulls: tuple[str, ...] = ()
    labels: tuple[Label, ...] = ()


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

    @property
    def by_hands(self) -> bool:
        return self.kind in HANDS


class Stop(Contract):
    """Nothing to do: ended, paused or waiting for a person."""

    status: Status
    cause: StopCause | None = None


class State(Contract):
    """Everything the reducer needs. Immutable: `apply` returns a new one."""

    schema_version: int = SCHEMA_VERSION
    run: str
    name: str
    source: BlobRef
    entry: str = ""
    options: Options
    status: Status = Status.QUEUED
    step: int = 0  # index of the step that is due
    started_at: float | None = None
    now: float | None = None  # of the last outcome
    paused_at: float | None = None
    resume: Status | None = None  # while paused: the status to go on with
    analysis: AnalysisSummary | None = None
    reference_timing: TimingReport | None = None
    reference_profile: BlobRef | None = None
    reference_diagnosis: Diagnosis | None = None
    plans: tuple[Plan, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    current: str | None = None  # the candidate under work
    best: str | None = None  # the fastest verified one with a significant gain
    branch_from: str | None = None  # the person's wish for the next parent
    hints: tuple[str, ...] = ()
    decisions: tuple[Decision, ...] = ()
    controls: tuple[Control, ...] = ()  # accepted, not yet applied
    profiles_asked: tuple[str, ...] = ()  # by people: ids of candidates, or REFERENCE
    usage: Usage = Usage()
    failures_in_row: int = 0
    gainless_in_row: int = 0
    replans: int = 0
    retries: dict[str, int] = {}  # step kind: infrastructure retries in a row
    tries: dict[str, int] = {}  # todo id, or "plan": attempts since its last success
    steered: tuple[str, ...] = ()  # ids of the controls taken, so that one delivered twice acts once
    stop_cause: StopCause | None = None
    error: str = ""

    @property
    def plan(self) -> Plan | None:
        return self.plans[-1] if self.plans else None

    def candidate(self, candidate_id: str) -> Candidate:
        """KeyError when there is none of that id."""
        for candidate in self.candidates:
            if candidate.id == candidate_id:
                return candidate
        raise KeyError(candidate_id)

    def todo(self, todo_id: str) -> Todo:
        for todo in self.plan.todos if self.plan else ():
            if todo.id == todo_id:
                return todo
        raise KeyError(todo_id)


# Outcomes: what a step brought back. `at` is the time it ended, `seconds` how long it took.


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
    kind: Literal["decided"] = "decided"
    decision: Decision
    usage: Usage = Usage()


class Unusable(_Outcome):
    """An engineer's answer that could not be used: counted as an attempt, shown, never a crash. `spent`: nothing was asked, for
    the worst case of it would overrun this part of the budget, so the run ends."""

    kind: Literal["unusable"] = "unusable"
    reason: str
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
