"""A run driven outcome by outcome, for tests of the reducer."""

from __future__ import annotations

from agents.blobs import MemoryBlobs
from agents.diagnosis import Diagnosis
from agents.loop import apply, next_step, start
from agents.state import (
    Analysed,
    AnalysisSummary,
    Built,
    Checked,
    Coded,
    Control,
    Decided,
    Decision,
    Outcome,
    Planned,
    Profiled,
    State,
    Steered,
    Step,
    Timed,
    Todo,
)
from gpu_runner.contracts import BuildReport, CandidateFiles, Verdict
from tests.agents.loop_world import analysis, baselines, check, new_state, program, timing, todo

BLOBS = MemoryBlobs()
REF = BLOBS.put(b"{}")


class Run:
    """Drives the reducer: each method answers the step that is due, after asserting that it is."""

    def __init__(self, state: State | None = None) -> None:
        self.state = start(state or new_state(), 100.0)
        self.at = 100.0
        self.written = 0

    def due(self) -> Step:
        step = next_step(self.state)
        assert isinstance(step, Step), f"nothing is due: {step}"
        return step

    def kind(self) -> str:
        step = next_step(self.state)
        return step.kind if isinstance(step, Step) else str(step.status)

    def take(self, kind: type[Outcome], seconds: float = 1.0, **fields: object) -> Run:
        self.at += seconds
        self.state = apply(self.state, kind(step=self.state.step, at=self.at, seconds=seconds, **fields))
        return self

    def analysed(self, **more: object) -> Run:
        report = analysis(**more)
        summary = AnalysisSummary(blob=REF, refusal=report.refusal, eager_ms=10.0, nulls=report.nulls, labels=report.labels)
        return self.take(Analysed, analysis=summary)

    def planned(self, *todos: str) -> Run:
        return self.analysed().profiled().plan(*(todo(t, title=t) for t in todos))

    def profiled(self, found: Diagnosis | None = None) -> Run:
        assert self.kind() == "profile"
        return self.take(Profiled, blob=REF, finding="f", diagnosis=found)

    def plan(self, *todos: Todo) -> Run:
        return self.take(Planned, todos=todos)

    def coded(self, text: str = "") -> Run:
        step = self.due()
        assert step.kind == "code"
        self.written += 1
        files = CandidateFiles(files=program(text or f"program {self.written}"))
        refs = {path: BLOBS.put(body.encode()) for path, body in files.files.items()}
        parent = self.state.candidates[-1].id if step.candidate else self.state.best
        return self.take(Coded, files=refs, sha256=files.sha256, title="t", todo=step.todo, parent=parent)

    def built(self, ok: bool = True) -> Run:
        report = BuildReport(ok=ok, verdict=None if ok else Verdict.BUILD_FAILED, diagnostics=() if ok else ("k.cpp:1: no",))
        return self.take(Built, report=report)

    def checked(self, verdict: Verdict = Verdict.VERIFIED) -> Run:
        return self.take(Checked, report=check(verdict))

    def timed(self, speedup: float, spread: float = 0.02) -> Run:
        return self.take(Timed, report=timing(speedup, spread))

    def profiled_if_due(self) -> Run:
        return self.profiled() if self.kind() == "profile" else self

    def decided(self, route: str = "advance") -> Run:
        return self.take(Decided, decision=Decision(candidate=self.state.current, route=route))

    def attempt(self, speedup: float, route: str = "advance") -> Run:
        return self.coded().built().checked().timed(speedup).profiled_if_due().decided(route)

    def failed_attempt(self, route: str = "advance") -> Run:
        return self.coded().built(ok=False).decided(route)

    def confirmed(self, speedup: float, verdict: Verdict = Verdict.VERIFIED) -> Run:
        self.checked(verdict)
        return self.timed(speedup) if verdict is Verdict.VERIFIED else self

    def baselines_timed(self) -> Run:
        """The last step of a run without a result."""
        assert (self.kind(), self.due().candidate) == ("confirm", None)
        return self.take(Timed, report=baselines())

    def steered(self, kind: str, control: str = "", **data: object) -> Run:
        control_id = control or f"{kind}-{len(self.state.steered)}"
        self.state = apply(
            self.state,
            Steered(step=self.state.step, at=self.at, control=Control(id=control_id, kind=kind, by="Ada", data=data)),
        )
        return self

    def statuses(self) -> list[str]:
        assert self.state.plan
        return [t.status for t in self.state.plan.todos]
