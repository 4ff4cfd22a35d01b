"""The edge between the pure loop and those who act: tasks for the hands, questions for engineers, bytes by content."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_loop import Run

from agents.blobs import FolderBlobs, MemoryBlobs
from agents.engineers import CodeAnswer, Context, UnusableAnswer
from agents.engineers.scripted import Scripted
from agents.loop import apply, next_step
from agents.state import Broken, Budget, Candidate, Coded, Decision, Planned, State, Step, Todo, Unusable
from agents.steps import files_of, hand_made, loop_protocol, outcome_of, source_of, task_for, think
from gpu_runner.contracts import PROTOCOLS, BuildReport, CandidateFiles, CheckTask, ProfileTask, TimeTask, Verdict
from gpu_runner.hands import Cancelled
from tests.agents.loop_world import FakeHands, new_state, options, program, scripted_name, todo


def at_planning(engineer: Scripted, blobs: MemoryBlobs, **more: Any) -> State:
    """A state in which a plan is due, with its analysis in `blobs`."""
    run = Run(new_state(options(scripted_name(engineer), **more), blobs))
    hands = FakeHands()
    while (step := run.due()).by_hands:
        report = hands.perform(task_for(step, run.state, blobs))
        run.state = apply(run.state, outcome_of(step, run.state, report, blobs, run.at, 1.0))
    return run.state


def ask(state: State, blobs: MemoryBlobs, **more: Any) -> Any:
    step = next_step(state)
    assert isinstance(step, Step)
    return think(step, state, blobs, **more)


def test_the_quick_protocol_keeps_the_tolerances_of_the_run() -> None:
    strict = PROTOCOLS["strict"].model_copy(update={"rtol": {"float32": 1e-6}, "faster_ratio": 1.5})
    quick = loop_protocol(options().model_copy(update={"protocol": strict}))
    assert (quick.name, quick.rtol, quick.faster_ratio, quick.arms) == ("quick", {"float32": 1e-6}, 1.5, ("eager",))


def test_a_step_gets_no_more_time_than_the_run_has_left() -> None:
    blobs = MemoryBlobs()
    state = new_state(options(budget=Budget(wall_s=60.0)), blobs)
    assert task_for(Step(index=0, kind="analyse"), state, blobs).limits.wall_s == 60.0
    assert task_for(Step(index=0, kind="analyse"), new_state(None, blobs), blobs).limits.wall_s > 60.0


def test_the_confirmation_is_a_check_and_a_timing_under_the_full_protocol() -> None:
    blobs = MemoryBlobs()
    run = Run(new_state(None, blobs))
    run.planned("a")
    files = CandidateFiles(files=program("one"))
    refs = {path: blobs.put(text.encode()) for path, text in files.files.items()}
    run.take(Coded, files=refs, sha256=files.sha256, title="t", todo="a", parent=None)
    run.built().checked().timed(1.5).profiled_if_due().decided()
    first = task_for(run.due(), run.state, blobs)
    second = task_for(run.checked().due(), run.state, blobs)
    assert isinstance(first, CheckTask)
    assert isinstance(second, TimeTask)
    assert first.protocol == second.protocol == run.state.options.protocol
    assert first.candidate == second.candidate == files


@pytest.mark.parametrize("required", [True, False])
def test_every_check_of_a_run_asks_for_own_kernels_where_the_run_does(required: bool) -> None:
    blobs = MemoryBlobs()
    run = Run(new_state(options(require_own_kernels=required), blobs))
    run.planned("a")
    files = CandidateFiles(files=program("one"))
    refs = {path: blobs.put(text.encode()) for path, text in files.files.items()}
    run.take(Coded, files=refs, sha256=files.sha256, title="t", todo="a", parent=None)
    inside = task_for(run.built().due(), run.state, blobs)
    run.checked().timed(1.5).profiled_if_due().decided()
    at_the_end = task_for(run.due(), run.state, blobs)
    for task in (inside, at_the_end):
        assert isinstance(task, CheckTask)
        assert task.require_own_kernels is required


@pytest.mark.parametrize("brief", [True, False])
def test_a_profile_is_as_brief_as_the_run_asks(brief: bool) -> None:
    blobs = MemoryBlobs()
    state = new_state(options().model_copy(update={"brief_profiles": brief}), blobs)
    task = task_for(Step(index=0, kind="profile"), state, blobs)
    assert isinstance(task, ProfileTask)
    assert task.brief is brief


def test_no_task_is_made_of_a_thought() -> None:
    blobs = MemoryBlobs()
    with pytest.raises(ValueError, match="no task for the hands"):
        task_for(Step(index=0, kind="plan"), new_state(None, blobs), blobs)


def test_text_that_has_no_bytes_is_replaced_before_it_reaches_the_state() -> None:
    blobs = MemoryBlobs()
    report = BuildReport(ok=False, verdict=Verdict.BUILD_FAILED, diagnostics=("\ud800",), log="\ud800")
    outcome = outcome_of(Step(index=0, kind="build", candidate="c1"), new_state(None, blobs), report, blobs, 1.0, 1.0)
    assert "ud800" not in outcome.model_dump_json()


def test_a_parent_and_a_failed_attempt_are_told_apart() -> None:
    blobs = MemoryBlobs()
    engineer = Scripted(codes=[program("again")])
    state = at_planning(engineer, blobs)
    run = Run(state)
    run.state = state
    run.take(Planned, todos=(todo("a"), todo("b")))
    run.attempt(1.5).failed_attempt("retry")
    outcome = ask(run.state, blobs)
    assert engineer.asked[-1] == ("code", "b", "c1", "c2")
    assert (outcome.parent, outcome.skill) == ("c2", "feedback")


def test_a_branch_is_the_parent_of_the_next_program() -> None:
    blobs = MemoryBlobs()
    engineer = Scripted(codes=[program("again")])
    run = Run(new_state())
    run.state = at_planning(engineer, blobs)
    run.take(Planned, todos=(todo("a"), todo("b"), todo("c")))
    run.attempt(1.5).attempt(1.2).steered("branch", **{"from": "c2"})
    outcome = ask(run.state, blobs)
    assert engineer.asked[-1] == ("code", "c", "c2", "")
    assert outcome.parent == "c2"


class Faulty(Scripted):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def plan(self, context: Context) -> Any:
        raise self.error


@pytest.mark.parametrize("error", [UnusableAnswer("No list in it."), TypeError("x"), AssertionError(), RecursionError()])
def test_whatever_an_engineer_raises_is_an_unusable_answer(error: Exception) -> None:
    blobs = MemoryBlobs()
    outcome = ask(at_planning(Faulty(error), blobs), blobs)
    assert isinstance(outcome, Unusable)
    assert outcome.reason


def test_an_engineer_that_was_told_to_stop_is_not_at_fault() -> None:
    blobs = MemoryBlobs()
    with pytest.raises(Cancelled):
        ask(at_planning(Faulty(Cancelled()), blobs), blobs)


def test_a_blob_that_is_gone_is_the_machines_trouble() -> None:
    blobs = MemoryBlobs()
    assert isinstance(ask(at_planning(Scripted(), blobs), MemoryBlobs()), Broken)


class Echo(Scripted):
    """Answers about another candidate than it was asked, and writes what no file can hold."""

    def code(self, context: Context, todo: Todo, parent: Candidate | None, failed: Candidate | None) -> CodeAnswer:
        return CodeAnswer(files=CandidateFiles(files=program("x")), title="\ud800" * 300, note="\udfff")


def test_titles_are_cut_and_made_writable() -> None:
    blobs = MemoryBlobs()
    run = Run(new_state())
    run.state = at_planning(Echo(decisions=[Decision(candidate="c99", route="advance")]), blobs)
    run.take(Planned, todos=(todo("a"),))
    outcome = ask(run.state, blobs)
    assert isinstance(outcome, Coded)
    assert len(outcome.title) == 200
    assert State.model_validate_json(run.state.model_dump_json()) == run.state
    run.coded().built().checked().timed(1.5).profiled_if_due()
    assert ask(run.state, blobs).decision.candidate == "c1"


def test_a_program_by_hand_is_checked_before_it_is_taken() -> None:
    blobs = MemoryBlobs()
    with pytest.raises(ValueError, match=r"model_new\.py"):
        hand_made("h", "Ada", {"kernels/a.cpp": ""}, None, "t", blobs)
    with pytest.raises(ValueError, match="allowed flags"):
        hand_made("h", "Ada", program("x") | {"candidate.toml": 'flags = ["-fplugin=evil.so"]'}, None, "t", blobs)
    with pytest.raises(ValueError, match="not valid TOML"):
        hand_made("h", "Ada", program("x") | {"candidate.toml": "flags = " + "[" * 3000}, None, "t", blobs)
    with pytest.raises(ValueError, match="not allowed"):
        hand_made("h", "Ada", program("x") | {"kernels/a.cpp\n": ""}, None, "t", blobs)


def test_files_and_source_come_back_as_they_were(tmp_path: Path) -> None:
    blobs = FolderBlobs(tmp_path)
    state = new_state(None, blobs)
    assert "class Model" in source_of(state, blobs).text
    refs = {path: blobs.put(text.encode()) for path, text in program("x").items()}
    candidate = Candidate(id="c1", parent=None, todo=None, title="t", files=refs, sha256="s")
    assert files_of(candidate, blobs).files == program("x")


@pytest.mark.parametrize("kind", ["memory", "folder"])
def test_blobs_are_found_by_their_content_and_by_nothing_else(kind: str, tmp_path: Path) -> None:
    blobs = MemoryBlobs() if kind == "memory" else FolderBlobs(tmp_path / "blobs")
    ref = blobs.put(b"some bytes")
    assert blobs.put(b"some bytes") == ref
    assert (blobs.get(ref), ref.size) == (b"some bytes", 10)
    for sha in ("0" * 64, "../../etc/passwd", ""):
        with pytest.raises(KeyError):
            blobs.get(ref.model_copy(update={"sha256": sha}))
    if kind == "folder":
        assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == [ref.sha256]
