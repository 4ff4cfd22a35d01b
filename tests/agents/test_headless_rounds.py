"""Rounds in one process: programs are written at once, one device measures them in turn, and Ctrl-C ends them all."""

from __future__ import annotations

import threading
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from agents.__main__ import main
from agents.blobs import MemoryBlobs
from agents.engineers import CodeAnswer, Context
from agents.engineers.scripted import Scripted
from agents.events import Event, View, fold_all
from agents.headless import optimize
from agents.result import verdict_of
from agents.state import Budget, Candidate, Search, State, Status, StopCause, Todo, Usage
from gpu_runner.contracts import CandidateFiles, Report, Task
from gpu_runner.hands import Cancelled, HandsError
from tests.agents.loop_world import SOURCE, FakeHands, options, program, scripted_name, timing, todo


class Together(Scripted):
    """Its programs are written only when `width` of them are asked for at the same time. `name` of the program: its lane's."""

    def __init__(self, width: int, *todos: Todo, **more: Any) -> None:
        super().__init__(plans=[todos or (todo(title="Fuse"),)], **more)
        self.barrier = threading.Barrier(width, timeout=20)
        self.told: list[tuple[str, ...]] = []
        self.budgets: list[Budget] = []

    def code(self, context: Context, todo: Todo, parent: Candidate | None, failed: Candidate | None) -> CodeAnswer:
        self.told.append(todo.constraints)
        self.budgets.append(context.state.options.budget)
        context.say("I write.\n")
        number = self.barrier.wait()
        name = f"{todo.title} {number} on {parent.id if parent else 'the reference'}"
        return CodeAnswer(CandidateFiles(files=program(name)), name, usage=self._usage)


class OneDevice(FakeHands):
    """Hands that notice when two steps are asked of them at once. `speeds`: by a word of the program."""

    def __init__(self, speeds: dict[str, float], **answers: Any) -> None:
        super().__init__(**answers)
        self.speeds, self.busy = speeds, threading.Lock()

    def perform(self, task: Task, *more: Any) -> Report:
        assert self.busy.acquire(blocking=False), "one device, one step"
        try:
            time.sleep(0.002)
            answer = super().perform(task, *more)
        finally:
            self.busy.release()
        text = str(getattr(getattr(task, "candidate", None), "files", ""))
        speed = next((speed for word, speed in self.speeds.items() if word in text), None)
        return timing(speed) if task.kind == "time" and speed else answer


def run(engineer: Scripted, hands: FakeHands, width: int, **more: Any) -> tuple[State, list[Event], View]:
    events: list[Event] = []
    search = Search(width=width, beam=more.pop("beam", 1))
    cancelled = more.pop("cancelled", lambda: False)
    chosen = options(scripted_name(engineer), search=search, **{"budget": Budget(attempts=9)} | more)
    state = optimize(SOURCE, chosen, hands, MemoryBlobs(), events.append, cancelled, name="example.py")
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    return state, events, fold_all(View(), events)


def test_the_best_of_three_programs_written_at_once_is_kept() -> None:
    engineer = Together(3)
    state, events, view = run(engineer, OneDevice({"Fuse 0": 1.2, "Fuse 1": 2.0, "Fuse 2": 0.9}), 3)
    assert (verdict_of(state), len(state.candidates), state.usage.attempts) == ("verified", 3, 3)
    best = state.candidate(state.best or "")
    assert best.title.startswith("Fuse 1")
    assert {c.round for c in view.candidates.values()} == {1}
    assert sorted(told[-1].split("number ")[1][0] for told in engineer.told) == ["1", "2", "3"]
    assert {f"engineer {lane}" for lane in (1, 2, 3)} < set(view.log)
    said = [e.payload["doing"] for e in events if e.kind == "run.status" and e.payload["round"]]
    assert "Round 1: writing 3 programs" in said


def test_the_next_round_starts_from_the_best_few() -> None:
    engineer = Together(2, todo(title="Fuse"), todo(title="Tile"))
    speeds = {"Tile 0": 3.0, "Tile 1": 1.0, "Fuse 0": 1.5, "Fuse 1": 1.8}
    state, _, _ = run(engineer, OneDevice(speeds), 2, beam=2)
    assert sorted(str(c.parent) for c in state.candidates) == ["None", "None", "c1", "c2"]
    assert state.candidate(state.best or "").title.startswith("Tile 0")


def test_a_lane_sees_its_share_and_the_run_keeps_to_its_budget() -> None:
    engineer = Together(3, usage=Usage(tokens_in=3900))
    state, _, _ = run(engineer, OneDevice({}), 3, budget=Budget(attempts=9, tokens=20_000))
    assert state.stop_cause is StopCause.TODOS_DONE
    assert state.usage.tokens_in == 5 * 3900  # the plan, three programs, the decision
    assert [budget.tokens for budget in engineer.budgets] == [3900 + (20_000 - 3900) // 3] * 3


def test_a_device_that_fails_ends_the_run_with_its_sentence() -> None:
    state, events, _ = run(Together(2), OneDevice({}, build=HandsError("No compiler; install one.")), 2)
    assert (state.status, "install one" in state.error) == (Status.FAILED, True)
    assert events[-1].kind == "run.finished"


def test_an_interrupt_ends_every_lane() -> None:
    stop = threading.Event()

    class Slow(Together):
        def code(self, context: Context, todo: Todo, parent: Candidate | None, failed: Candidate | None) -> CodeAnswer:
            self.barrier.wait()
            stop.set()
            while not context.cancelled():
                time.sleep(0.01)
            raise Cancelled

    began = time.monotonic()
    state, events, _ = run(Slow(3), OneDevice({}), 3, cancelled=stop.is_set)
    assert state.status is Status.CANCELLED
    assert events[-1].kind == "run.finished"
    assert time.monotonic() - began < 10
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("lane")]


def test_a_coder_that_always_answers_alike_is_asked_once_per_parent() -> None:
    state, _, _ = run(Scripted(plans=[()]), FakeHands(), 4)
    assert state.options.search.samples
    blobs = MemoryBlobs()
    chosen = options("offline", search=Search(width=4))
    state = optimize(SOURCE, chosen, FakeHands(analyse=HandsError("Enough.")), blobs)
    assert not state.options.search.samples


def test_the_command_line_says_how_wide_a_run_is(tmp_path: Path) -> None:
    source, engineer = tmp_path / "layer.py", Together(2)
    source.write_text(SOURCE)
    command = ["optimize", str(source), "--out", str(tmp_path / "out"), "--engineer", scripted_name(engineer), "--width", "2"]
    assert main([*command, "--attempts", "2"], lambda: nullcontext(OneDevice({"Fuse 1": 2.0}))) == 0
    state = State.model_validate_json((tmp_path / "out" / "state.json").read_text())
    assert (state.options.search, state.rounds) == (Search(width=2, beam=1, samples=True), 1)
    assert (state.usage.attempts, len(engineer.told)) == (2, 2)
