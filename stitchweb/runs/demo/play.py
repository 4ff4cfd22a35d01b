"""Has the real reducer tell a synthetic run: every event is one that a real run with such reports would have."""

from __future__ import annotations

import random
from collections.abc import Iterator

from agents.events import Event, created, events_of, events_of_progress
from agents.loop import apply, open_steps, start
from agents.loop.rules import parent_of_next
from agents.state import (
    BlobStore,
    Broken,
    Coded,
    Control,
    Decided,
    Decision,
    Outcome,
    Planned,
    State,
    Steered,
    Step,
    Unusable,
)
from agents.steps import outcome_of
from gpu_runner.contracts import PROTOCOLS, CandidateFiles, Progress, Report, Verdict
from stitchweb.runs.demo import reports
from stitchweb.runs.demo.scripts import TODOS, Attempt, Script, files

SECONDS = {
    "analyse": 3.4,
    "plan": 0.4,
    "code": 1.2,
    "build": 1.8,
    "check": 4.1,
    "time": 3.1,
    "profile": 2.2,
    "decide": 0.1,
    "confirm": 24.0,
}


class Play:
    """One run on its way. `told` grows; `state` is where it stands."""

    def __init__(self, script: Script, state: State, blobs: BlobStore, at: float) -> None:
        self._script = script
        self._blobs = blobs
        self._attempts = list(script.attempts)
        self._of: dict[str, Attempt] = {}
        self._chance = random.Random(script.name)  # noqa: S311  the same story every time
        self.state = state
        self.at = at
        self.told: list[Event] = created(state, at, synthetic=True)

    def run(self) -> State:
        """To its end, or to where a person is waited for."""
        self._move(None)
        while steps := open_steps(self.state):
            step = min(steps, key=lambda one: one.index)  # of a round, the lane that waits longest
            if self._script.cancel_at is not None and step.index >= self._script.cancel_at:
                self._move(Steered(step=step.index, at=self.at, control=Control(id="1", kind="cancel", by="Ada Example")))
                continue
            seconds = SECONDS[step.kind] * self._chance.uniform(0.8, 1.3)
            for progress in self._progress(step):
                self.at += 0.05
                self._tell([
                    Event(seq=1, kind=kind, at=self.at, who="runner", payload=payload)
                    for kind, payload in events_of_progress(progress, step, lambda: self.state)
                ])  # fmt: skip
            self.at += seconds
            self._move(self._outcome(step, seconds))
        return self.state

    def _move(self, outcome: Outcome | None) -> None:
        before = self.state
        self.state = start(before, self.at) if outcome is None else apply(before, outcome)
        self._tell(events_of(before, outcome, self.state, self.at, 0, self._blobs))

    def _tell(self, events: list[Event]) -> None:
        for event in events:
            self.told.append(event.model_copy(update={"seq": len(self.told) + 1}))

    def _outcome(self, step: Step, seconds: float) -> Outcome:
        if self._script.broken:
            return Broken(step=step.index, at=self.at, seconds=seconds, reason=self._script.broken)
        if step.by_hands:
            return outcome_of(step, self.state, self._report(step), self._blobs, self.at, seconds)
        if step.kind == "plan":
            return Planned(
                step=step.index, at=self.at, seconds=seconds, todos=TODOS, note="The program moves each element four times."
            )
        if step.kind == "code":
            return self._coded(step, seconds)
        attempt = self._of[step.candidate or ""]
        good = attempt.verdict is Verdict.VERIFIED
        decision = Decision(
            candidate=step.candidate,
            route="advance" if good else "retry",
            bottleneck="memory" if good else "",
            evidence=("18.1 of 21.4 GB/s",) if good else (),
            suggestions=("Write the result past the cache.",) if good else ("Look at the row that failed.",),
            sentence="Memory-bound: what is left to gain is traffic."
            if good
            else "It is not right yet; the check names the row.",
        )
        return Decided(step=step.index, at=self.at, seconds=seconds, decision=decision)

    def _coded(self, step: Step, seconds: float) -> Outcome:
        if not self._attempts:
            return Unusable(step=step.index, at=self.at, seconds=seconds, reason="No further way to do this item is known.")
        attempt = self._attempts.pop(0)
        number = len(self.state.candidates) + 1
        self._of[f"c{number}"] = attempt
        made = CandidateFiles(files=files(attempt, number))
        return Coded(
            step=step.index,
            at=self.at,
            seconds=seconds,
            files={path: self._blobs.put(text.encode()) for path, text in made.files.items()},
            sha256=made.sha256,
            title=attempt.title,
            todo=step.todo,
            parent=step.candidate if step.lane else parent_of_next(self.state, step.todo or ""),
            skill="feedback" if step.candidate else "from_scratch",
        )

    def _report(self, step: Step) -> Report:
        if step.kind == "analyse":
            return reports.analysis(self._script.refusal, self._script.nulls)
        attempt = self._of.get(step.candidate or "")
        full = self.state.stop_cause is not None
        protocol = (self.state.options.protocol if full else PROTOCOLS["quick"]).id
        if attempt is None and step.kind == "confirm":  # the baselines alone: what is said of a candidate is left out
            return reports.timing(1.0, full, protocol, self._chance)
        if attempt is None:
            return reports.profile("reference", 1.0)
        if step.kind == "build":
            return reports.build(attempt.verdict is not Verdict.BUILD_FAILED)
        if step.kind == "check":
            return reports.check(attempt.verdict, attempt.hack, protocol)
        if step.kind == "profile":
            return reports.profile("candidate", attempt.speedup)
        return reports.timing(attempt.speedup, full, protocol, self._chance)

    def _progress(self, step: Step) -> Iterator[Progress]:
        """What a watcher would have seen on the way."""
        attempt = self._of.get(step.candidate or "")
        if step.kind == "build":
            yield Progress(
                kind="log", payload={"stream": "build", "text": "g++ -O3 -march=native -fopenmp kernels/fused.cpp\n"}
            )
        if attempt and step.kind == "check":
            for row in reports.rows(attempt.verdict)[:8]:
                yield Progress(kind="check", payload=row.model_dump(mode="json"))
        if attempt and step.kind in ("time", "confirm"):
            for number in range(1, 6):
                for name, ms in (("eager", reports.EAGER_MS), ("candidate", reports.EAGER_MS / attempt.speedup)):
                    yield Progress(
                        kind="timing", payload={"arm": name, "round": number, "rounds": 5, "median_ms": round(ms, 3)}
                    )
