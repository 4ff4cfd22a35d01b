"""The state itself."""

from __future__ import annotations

from agents.diagnosis import Diagnosis
from agents.state.parts import AnalysisSummary, Candidate, Control, Decision, Plan, Todo
from agents.state.words import Budget, Options, Status, StopCause, Usage
from gpu_runner.contracts import BlobRef, Contract, TimingReport

SCHEMA_VERSION = 1


class Lane(Contract):
    """One way through a round: a program is written, built, checked and timed beside others.

    `step`: the index of the step under way; None while the run is paused before it, and once the lane is over.
    """

    number: int  # from 1
    base: str | None  # the candidate that it starts from; None: the reference
    budget: Budget  # its share of the tokens, the money and the device seconds that were left when the round began
    usage: Usage = Usage()
    status: Status = Status.CODING
    step: int | None = None
    candidate: str | None = None
    retries: int = 0  # of this step, after infrastructure trouble
    repeats: int = 0  # programs it wrote that were there before
    over: bool = False
    spent: StopCause | None = None  # nothing was asked, for the worst case would overrun this part of its share
    broken: str = ""  # why nothing could come of it: that, or the machine's trouble


class Round(Contract):
    """Several programs for one item of the plan at once. It is over when its last lane is; then one of them is decided on."""

    number: int
    todo: str
    best: str | None  # when it began
    lanes: tuple[Lane, ...]


class State(Contract):
    """Everything the reducer needs. Immutable: `apply` returns a new one."""

    schema_version: int = SCHEMA_VERSION
    run: str
    name: str
    source: BlobRef
    entry: str = ""
    options: Options
    status: Status = Status.QUEUED
    step: int = 0  # index of the step that is due; during a round, of the next one
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
    round: Round | None = None  # under way; its lanes have the steps then
    rounds: int = 0
    best: str | None = None  # the fastest verified one with a significant gain
    branch_from: str | None = None  # the person's wish for the next parent
    hints: tuple[str, ...] = ()
    decisions: tuple[Decision, ...] = ()
    controls: tuple[Control, ...] = ()  # accepted, not yet applied
    profiles_asked: tuple[str, ...] = ()  # by people: ids of candidates, or REFERENCE
    usage: Usage = Usage()
    rejected: tuple[str, ...] = ()  # answers of the Coder that became no candidate, the newest last
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
