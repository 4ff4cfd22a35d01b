"""What a run is made of: plans, candidates, decisions, and what people ask of it."""

from __future__ import annotations

from typing import Any, Literal, Protocol

from agents.diagnosis import Diagnosis
from gpu_runner.contracts import (
    BlobRef,
    BuildReport,
    CheckReport,
    Contract,
    HackClass,
    Label,
    Refusal,
    TimingReport,
    Verdict,
)

REFERENCE = "reference"  # where a profile is asked for: the program itself, not a candidate


class BlobStore(Protocol):
    """Bytes by content. `get` raises KeyError for an unknown address."""

    def put(self, data: bytes) -> BlobRef: ...
    def get(self, ref: BlobRef) -> bytes: ...


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
    fingerprint: str = ""  # the same for programs that differ in names, comments and spaces alone
    round: int = 0  # that it was written in; 0: in none
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
    tie: str = ""  # the loop's own word on which of several equally fast programs a judge put first; no engineer reads it


class Rating(Contract):
    """What a judge makes of a candidate, as far as the loop heeds it. `judge`: its name and version; `merit`: the mean level, 1
    to 5, None where it came to none and `broken` says why."""

    candidate: str
    judge: str = ""
    merit: float | None = None
    broken: str = ""


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
