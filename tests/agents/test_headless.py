"""The whole loop in one process: a scripted engineer, hands that play reports, and everything between them real."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from agents.__main__ import main
from agents.blobs import FolderBlobs, MemoryBlobs
from agents.engineers.scripted import Scripted
from agents.events import Event, View, fold_all
from agents.headless import optimize
from agents.result import line_of, sentence_of, verdict_of
from agents.state import Budget, State, Status, StopCause
from gpu_runner.contracts import BuildReport, CheckTask, Label, Progress, Refusal, Speed, Verdict
from gpu_runner.hands import Cancelled, HandsError
from tests.agents.loop_world import SOURCE, FakeHands, analysis, check, options, program, scripted_name, timing, todo


def two_todos() -> Scripted:
    return Scripted(plans=[(todo(title="Fuse"), todo(title="Tile"))], codes=[program("one"), program("two")])


def run(hands: FakeHands, engineer: Scripted | None = None, **more: Any) -> tuple[State, list[Event], MemoryBlobs]:
    blobs, events = MemoryBlobs(), []
    chosen = options(scripted_name(engineer or two_todos()), budget=Budget(attempts=6))
    state = optimize(SOURCE, chosen, hands, blobs, events.append, name="example.py", **more)
    return state, events, blobs


def test_a_run_ends_verified_and_its_events_fold_to_what_it_came_to() -> None:
    hands = FakeHands(time=[timing(1.5), timing(2.0), timing(1.9, compile_ms=8.0)])
    state, events, _ = run(hands)
    assert (state.status, state.best, verdict_of(state)) == (Status.FINISHED, "c2", "verified")
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    view = fold_all(View(), events)
    assert view.status.status is Status.FINISHED
    assert view.result is not None
    assert view.result.result == json.loads(json.dumps(line_of(state)))
    assert view.candidates["c2"].rows
    assert view.candidates["c2"].build is not None
    assert view.candidates["c2"].build["log"]["size"] == len("built\n")
    assert view.analysis is not None
    assert view.analysis.inputs == ("float32 [64, 128]",)
    assert set(view.profiles) == {"reference", "c1", "c2"}
    assert "build line" in view.log["build"]
    assert "Reading the script." in view.log["engineer"]


def test_inside_the_loop_the_quick_protocol_is_used_and_the_full_one_at_the_end() -> None:
    hands = FakeHands(time=[timing(1.5), timing(1.0), timing(1.5)])
    run(hands)
    seen = [(task.kind, task.protocol.name) for task in hands.tasks if hasattr(task, "protocol")]
    assert seen[0] == ("analyse", "strict")
    assert seen[-2:] == [("check", "strict"), ("time", "strict")]
    assert {name for _, name in seen[1:-2]} == {"quick"}


def test_the_line_carries_every_key_and_the_numbers_of_the_confirmation() -> None:
    state, _, _ = run(FakeHands(time=[timing(1.5), timing(1.0), timing(1.6, compile_ms=8.0)]))
    line = line_of(state)
    assert ", ".join(line) == (
        "file, verdict, speed, baseline, eager_ms, compile_ms, baseline_errors, candidate_ms, speedup_vs_eager, ci_low, "
        "ci_high, speedup_vs_compile, ci_compile_low, ci_compile_high, offered, offered_vs_eager, operator_coverage, labels, "
        "protocol, mode, precision, device, build_s, wall_s, error"
    )
    assert line["verdict"] == "verified"
    assert line["speedup_vs_eager"] == pytest.approx(1.6)
    assert line["compile_ms"] == {"default": 8.0}
    assert line["protocol"] == "strict/4"


def test_where_torch_compile_is_faster_the_run_says_so_and_offers_it() -> None:
    better = timing(1.6, compile_ms=4.0, baseline="default").model_copy(update={"speed": Speed.SLOWER})
    state, _, _ = run(FakeHands(time=[timing(1.5), timing(1.0), better]))
    line = line_of(state)
    assert (line["verdict"], line["offered"], line["offered_vs_eager"]) == ("verified", "default", pytest.approx(2.5))
    assert "torch.compile is faster than it here (2.50× as fast as eager), so take that: torch.compile(model)." in sentence_of(
        state
    )


def test_torch_compile_is_offered_where_nothing_was_confirmed() -> None:
    state, _, _ = run(FakeHands(time=[timing(1.5), timing(1.0), timing(1.0, compile_ms=4.0, baseline="default")]))
    line = line_of(state)
    assert (line["verdict"], line["offered"], line["offered_vs_eager"]) == ("no-gain", "default", pytest.approx(2.5))
    assert "torch.compile is faster than eager here (2.50× as fast as eager)" in sentence_of(state)


def test_torch_compile_is_not_offered_where_the_candidate_is_faster_or_nothing_is_known_to_be_slower() -> None:
    for speed in (Speed.FASTER, Speed.NOT_DISTINGUISHABLE, Speed.NOT_CLAIMED):
        report = timing(1.6, compile_ms=4.0, baseline="default").model_copy(update={"speed": speed})
        state, _, _ = run(FakeHands(time=[timing(1.5), timing(1.0), report]))
        assert line_of(state)["offered"] is None
        assert "torch.compile is faster" not in sentence_of(state)


def test_a_run_without_a_gain_claims_nothing() -> None:
    state, _, _ = run(FakeHands(time=timing(1.0)))
    line = line_of(state)
    assert (line["verdict"], line["speed"], line["speedup_vs_eager"]) == ("no-gain", "not-claimed", None)
    assert "unsteady" not in sentence_of(state)


def test_a_run_on_a_busy_machine_says_that_its_timings_are_no_finding() -> None:
    unsteady = timing(1.8, 0.9).model_copy(update={"speed": Speed.NOT_CLAIMED, "labels": (Label.UNSTABLE_TIMING,)})
    state, _, _ = run(FakeHands(time=unsteady))
    assert verdict_of(state) == "no-gain"
    assert "The timing of c1, c2 was too unsteady for a claim: run it again" in sentence_of(state)


def test_a_failed_build_is_shown_to_the_engineer_that_repairs_it() -> None:
    engineer = Scripted(plans=[(todo(),)], codes=[program("wrong"), program("right")])
    broken = BuildReport(ok=False, verdict=Verdict.BUILD_FAILED, diagnostics=("k.cpp:3: error",), log="x" * 9000)
    state, _, blobs = run(FakeHands(build=[broken, BuildReport(ok=True)]), engineer)
    assert engineer.asked == [("plan",), ("code", "t1", "", ""), ("decide", "c1"), ("code", "t1", "", "c1"), ("decide", "c2")]
    first = state.candidate("c1")
    assert first.build is not None
    assert len(first.build.log) < 5000
    assert len(blobs.get(first.logs["build"])) == 9000


@pytest.mark.parametrize("accident", [RuntimeError("boom"), KeyError("x"), ValueError("bad"), RecursionError("deep")])
def test_an_engineer_that_fails_costs_an_attempt_and_never_the_run(accident: Exception) -> None:
    engineer = Scripted(plans=[(todo(),)], codes=[accident, {"nothing.py": ""}, program("good")])
    state, events, _ = run(FakeHands(), engineer)
    assert verdict_of(state) == "verified"
    assert state.usage.attempts == 3
    said = "".join(str(e.payload["text"]) for e in events if e.kind == "log.lines")
    assert type(accident).__name__ in said
    assert "model_new.py" in said


def test_hands_that_fail_end_the_run_with_their_sentence() -> None:
    state, events, _ = run(FakeHands(check=HandsError("No sandbox here; install bubblewrap.")))
    assert state.status is Status.FAILED
    assert "install bubblewrap" in state.error
    assert events[-1].kind == "run.finished"
    assert "install bubblewrap" in events[-1].payload["sentence"]


def test_a_fault_of_the_hands_is_tried_again_and_then_ends_the_run() -> None:
    state, _, _ = run(FakeHands(check=[ZeroDivisionError("oops"), check()]))
    assert verdict_of(state) == "verified"
    state, _, _ = run(FakeHands(check=ZeroDivisionError("oops")))
    assert state.status is Status.FAILED
    assert "ZeroDivisionError" in state.error


def test_a_report_of_another_kind_is_the_hands_fault() -> None:
    state, _, _ = run(FakeHands(build=check()))
    assert state.status is Status.FAILED


def test_an_engineer_that_does_not_exist_fails_the_run_with_the_known_names() -> None:
    state = optimize(SOURCE, options("nobody"), FakeHands(), MemoryBlobs())
    assert state.status is Status.FAILED
    assert "nobody" in state.error


class Interrupted(FakeHands):
    """Turns a flag on in the middle of a check, as Ctrl-C would, and ends as the hands do then."""

    stop = False

    def perform(self, task: Any, progress: Any = lambda p: None, cancelled: Any = lambda: False) -> Any:
        report = super().perform(task, progress, cancelled)
        if task.kind == "check":
            self.stop = True
            assert cancelled()
            raise Cancelled
        return report


def test_an_interrupted_run_ends_cancelled_and_books_nothing_on_the_program() -> None:
    hands = Interrupted()
    state, events, _ = run(hands, cancelled=lambda: hands.stop)
    assert (state.status, state.stop_cause) == (Status.CANCELLED, StopCause.CANCELLED)
    assert state.candidate("c1").verdict is None
    assert events[-1].payload["verdict"] == "cancelled"


# ---- the commands


Hands = Callable[[], AbstractContextManager[FakeHands]]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "layer.py"
    path.write_text(SOURCE)
    return path


def given(hands: FakeHands) -> Hands:
    return lambda: nullcontext(hands)


def last_json(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def command(source: Path, out: Path, engineer: Scripted | None = None) -> list[str]:
    name = scripted_name(engineer or two_todos())
    return ["optimize", str(source), "--engineer", name, "--out", str(out), "--json", "--attempts", "4"]


def test_optimize_leaves_a_whole_run_in_its_folder(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(command(source, out), given(FakeHands())) == 0
    line = last_json(capsys)
    assert (line["file"], line["verdict"]) == (str(source), "verified")
    state = State.model_validate_json((out / "state.json").read_text())
    events = [Event.model_validate_json(text) for text in (out / "events.jsonl").read_text().splitlines()]
    assert fold_all(View(), events).best == state.best == "c1"
    result = json.loads((out / "result.json").read_text())
    assert result["verdict"] == "verified"
    assert result["protocol_settings"]["name"] == "strict"
    assert result["hashes"]["reference"] == state.source.sha256
    assert (out / "candidates" / "c1" / "model_new.py").read_text() == program("one")["model_new.py"]
    assert FolderBlobs(out / "blobs").get(state.source).decode() == SOURCE
    assert (out / "bundle.zip").exists()


def test_optimize_can_require_own_kernels(source: Path, tmp_path: Path) -> None:
    hands = FakeHands()
    assert main([*command(source, tmp_path / "out"), "--require-own-kernels"], given(hands)) == 0
    checks = [task for task in hands.tasks if isinstance(task, CheckTask)]
    assert checks
    assert all(task.require_own_kernels for task in checks)
    told = (tmp_path / "out" / "events.jsonl").read_text().splitlines()
    assert json.loads(told[0])["payload"]["require_own_kernels"] is True


@pytest.mark.parametrize(
    ("hands", "status", "verdict"),
    [
        (FakeHands(analyse=analysis(refusal=Refusal(code="crash", sentence="It crashes."))), 2, "refused"),
        (FakeHands(time=timing(1.0)), 3, "no-gain"),
        (FakeHands(build=HandsError("No compiler.")), 4, "failed"),
    ],
)
def test_optimize_says_by_its_exit_status_how_it_ended(
    hands: FakeHands, status: int, verdict: str, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(source, tmp_path / "out"), given(hands)) == status
    assert last_json(capsys)["verdict"] == verdict
    assert not (tmp_path / "out" / "bundle.zip").exists()


def test_optimize_refuses_what_it_cannot_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    latin = tmp_path / "latin.py"
    latin.write_bytes("# caf\xe9".encode("latin-1"))
    for path in (latin, tmp_path / "missing.py"):
        assert main(command(path, tmp_path / "out"), given(FakeHands())) == 2
        assert last_json(capsys)["error"]
    assert not (tmp_path / "out").exists()


def test_optimize_writes_over_nothing(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "note.txt").write_text("mine")
    assert main(command(source, tmp_path), given(FakeHands())) == 4
    assert "holds something already" in last_json(capsys)["error"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["layer.py", "note.txt"]


def test_optimize_names_the_engineers_it_knows(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["optimize", str(source), "--engineer", "nobody", "--out", str(tmp_path / "o"), "--json"]) == 4
    assert "offline" in last_json(capsys)["error"]


class KilledByCtrlC(FakeHands):
    def perform(self, task: Any, progress: Any = lambda p: None, cancelled: Any = lambda: False) -> Any:
        if task.kind == "build":
            os.kill(os.getpid(), signal.SIGINT)
        return super().perform(task, progress, cancelled)


def test_ctrl_c_ends_a_run_cleanly(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGINT)
    assert main(command(source, tmp_path / "out"), given(KilledByCtrlC())) == 4
    assert last_json(capsys)["verdict"] == "cancelled"
    assert json.loads((tmp_path / "out" / "result.json").read_text())["verdict"] == "cancelled"
    assert signal.getsignal(signal.SIGINT) is before


def test_progress_with_hostile_content_keeps_events_small(tmp_path: Path) -> None:
    class Loud(FakeHands):
        def perform(self, task: Any, progress: Any = lambda p: None, cancelled: Any = lambda: False) -> Any:
            progress(Progress(kind="log", payload={"stream": "s" * 500, "text": "\x1b\ud800é" * 30_000}))
            progress(Progress(kind="stage", payload={"text": "t" * 10_000}))
            progress(Progress(kind="timing", payload={"arm": "eager", "round": 1, "rounds": 2, "median_ms": float("inf")}))
            progress(Progress(kind="check", payload={"group": "declared", "name": "n" * 20_000, "passed": True}))
            return super().perform(task, progress, cancelled)

    _, events, _ = run(Loud())
    assert max(len(event.model_dump_json().encode()) for event in events) < 8_500
    fold_all(View(), events)
