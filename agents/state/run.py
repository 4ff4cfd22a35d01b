"""The state itself."""

from __future__ import annotations

from agents.diagnosis import Diagnosis
from agents.state.parts import AnalysisSummary, Candidate, Control, Decision, Plan, Todo
from agents.state.words import Options, Status, StopCause, Usage
from gpu_runner.contracts import BlobRef, Contract, TimingReport

SCHEMA_VERSION = 1


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
