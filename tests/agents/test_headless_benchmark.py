"""Many programs in a given time: a line each, also for those that do not work, and totals that count them all."""

from __future__ import annotations

import json
import math
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from agents.__main__ import main
from agents.benchmark import benchmark, programs, read_lines
from agents.engineers import CodeAnswer, Context, PlanAnswer
from agents.engineers.scripted import Scripted
from agents.headless import optimize
from agents.state import Candidate, Options, Todo
from agents.summary import latest, table, totals
from gpu_runner import turns
from gpu_runner.contracts import CandidateFiles, Refusal, Verdict
from gpu_runner.job import Job
from tests.agents.loop_world import SOURCE, FakeHands, analysis, options, program, scripted_name, todo


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "suite"
    for name in ("level1/b.py", "level1/a.py", "level2/c.py", ".hidden/d.py", "__pycache__/e.py"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SOURCE + f"# {name}\n")
    (root / "level2" / "broken.py").write_bytes(b"\xff\xfe")
    return root


class Picky(FakeHands):
    """Refuses the program b, and is fine with the others."""

    def perform(self, task: Any, progress: Any = lambda p: None, cancelled: Any = lambda: False) -> Any:
        if task.kind == "analyse" and "b.py" in task.source.text:
            return analysis(refusal=Refusal(code="crash", sentence="It crashes."))
        return super().perform(task, progress, cancelled)


class PerRun(Scripted):
    """Writes one program per run: an engineer is asked for anew at every step, so what it did is read from the state."""

    def plan(self, context: Context) -> PlanAnswer:
        return PlanAnswer(todos=(todo(),))

    def code(self, context: Context, todo: Todo, parent: Candidate | None, failed: Candidate | None) -> CodeAnswer:
        return CodeAnswer(files=CandidateFiles(files=program("one")), title="One")


@pytest.fixture
def engineer() -> str:
    return scripted_name(PerRun())


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(text) for text in path.read_text().splitlines()]


def test_every_program_below_the_folder_is_found_in_order(folder: Path) -> None:
    names = [path.relative_to(folder).as_posix() for path in programs(folder)]
    assert names == ["level1/a.py", "level1/b.py", "level2/broken.py", "level2/c.py"]


def test_each_program_gets_one_line_and_a_broken_one_stops_nothing(
    folder: Path, tmp_path: Path, engineer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "results.jsonl"
    given = ["benchmark", str(folder), "--engineer", engineer, "--minutes", "5", "--out", str(out), "--json"]
    assert main(given, lambda: nullcontext(Picky())) == 0
    assert [(line["file"], line["verdict"]) for line in lines(out)] == [
        ("level1/a.py", "verified"), ("level1/b.py", "refused"), ("level2/broken.py", "refused"), ("level2/c.py", "verified"),
    ]  # fmt: skip
    sums = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert sums["verdicts"] == {"refused": 2, "verified": 2}
    assert sums["against"]["eager"]["geomean_all"] == pytest.approx(math.sqrt(1.5))


def test_a_benchmark_goes_on_where_it_was_killed(folder: Path, tmp_path: Path, engineer: str) -> None:
    out = tmp_path / "results.jsonl"
    done = {"file": "level1/a.py", "verdict": "no-gain"}
    again = {"file": "level1/b.py", "verdict": "failed"}
    out.write_text(json.dumps(done) + "\n" + json.dumps(again) + "\n" + '{"file": "level2/c.py", "verd')
    given = ["benchmark", str(folder), "--engineer", engineer, "--minutes", "5", "--out", str(out)]
    assert main(given, lambda: nullcontext(Picky())) == 2, "without --resume nothing is written over"
    assert main([*given, "--resume"], lambda: nullcontext(Picky())) == 0
    assert [line["file"] for line in lines(out)] == ["level1/a.py", "level1/b.py", "level2/broken.py", "level2/c.py"]
    assert lines(out)[0] == done


class Clock:
    """Moves `step` s whenever hands of it work."""

    def __init__(self, step: float) -> None:
        self.now, self.step = 0.0, step

    def __call__(self) -> float:
        return self.now

    def hands(self) -> FakeHands:
        clock = self

        class Slow(FakeHands):
            def perform(self, task: Any, progress: Any = lambda p: None, cancelled: Any = lambda: False) -> Any:
                clock.now += clock.step
                return super().perform(task, progress, cancelled)

        return Slow()


def timed(folder: Path, clock: Clock, seconds: float, target: str = "cpu") -> tuple[list[dict[str, Any]], list[str]]:
    chosen: Options = options(scripted_name(Scripted())).model_copy(update={"target": target})
    todo_list = [path for path in programs(folder) if path.name != "broken.py"]
    said: list[str] = []
    return list(benchmark(folder, todo_list, chosen, seconds, [clock.hands()], said.append, clock=clock)), said


def test_time_is_shared_fairly_over_what_is_left(folder: Path) -> None:
    """What the first program overdraws, the later ones share; who could not come to an end is not begun and has no line."""
    result, said = timed(folder, Clock(14.0), 100.0)
    shares = [text.rpartition(", ")[2] for text in said[:2]]
    assert shares == ["33 s", "30 s"], "an equal share, but never less than one takes"
    assert [line["verdict"] for line in result] == ["no-gain", "no-gain"]
    assert said[2:] == ["1 program was not begun: one takes about 30 s, and 16 s were left. --resume takes up there."]


def test_what_one_takes_is_known_from_those_that_are_done(folder: Path) -> None:
    for name in ("d", "e", "f"):
        (folder / "level2" / f"{name}.py").write_text(SOURCE + f"# {name}\n")
    result, said = timed(folder, Clock(2.0), 50.0)
    assert len(result) == 6, "they end after 6 s each, so that is time enough for the last ones as well"
    assert said[-1].startswith("[6/6]")
    result, said = timed(folder, Clock(2.0), 160.0, "sm_90")
    assert len(result) == 2, "on a GPU nothing is begun with less than 150 s"
    assert said[-1].startswith("4 programs were not begun")


def test_a_program_whose_time_was_over_is_cancelled_and_never_refused(folder: Path) -> None:
    """The analysis is cut by the share of the time: that the program did not end in it says nothing of the program."""
    clock = Clock(0.0)

    class Cut(FakeHands):
        def perform(self, task: Any, progress: Any = lambda p: None, cancelled: Any = lambda: False) -> Any:
            clock.now += task.limits.wall_s
            return analysis(refusal=Refusal(code="timed_out", sentence="The judge did not finish in time."))

    [path] = [path for path in programs(folder) if path.name == "a.py"]
    [line] = benchmark(folder, [path], options(), 35.0, [Cut()], clock=clock)
    assert (line["verdict"], line["error"]) == ("cancelled", "The budget of time is spent.")
    [line] = benchmark(folder, [path], options(), 1000.0, [Cut()], clock=clock)
    assert line["verdict"] == "refused", "it had all the time that an analysis may take"


def test_without_a_program_of_ours_that_was_judged_a_run_out_of_time_has_no_verdict(folder: Path, engineer: str) -> None:
    clock = Clock(0.0)

    class Cut(FakeHands):
        def perform(self, task: Any, progress: Any = lambda p: None, cancelled: Any = lambda: False) -> Any:
            report = super().perform(task, progress, cancelled)
            if task.kind != "check":
                return report
            clock.now += task.limits.wall_s
            return report.model_copy(update={"verdict": Verdict.TIMED_OUT, "sentence": "The judge did not finish in time."})

    [path] = [path for path in programs(folder) if path.name == "a.py"]
    [line] = benchmark(folder, [path], options(engineer), 35.0, [Cut()], clock=clock)
    assert line["verdict"] == "cancelled"
    assert "over before a program of ours had been judged" in line["error"]


def test_programs_run_beside_each_other_and_a_line_says_where_the_time_went(folder: Path, engineer: str) -> None:
    together = threading.Barrier(2, timeout=20)

    class Watched(FakeHands):
        def perform(self, task: Any, progress: Any = lambda p: None, cancelled: Any = lambda: False) -> Any:
            together.wait()  # breaks unless the other program is at work as well: order is the hands' own
            if task.kind == "check":
                time.sleep(0.01)
            if task.kind == "time":
                job = Job("cpu", task.limits, task.mode, task.precision, progress, cancelled)
                with turns.alone(job):
                    time.sleep(0.1)
            return super().perform(task, progress, cancelled)

    two = [path for path in programs(folder) if path.name in ("a.py", "c.py")]
    result = list(benchmark(folder, two, options(engineer), 100.0, [Watched(), Watched()]))
    assert sorted(line["verdict"] for line in result) == ["verified", "verified"]
    for line in result:
        assert line["seconds"].keys() == {"waiting", "analyse", "profile", "build", "check", "time"}
        assert line["seconds"]["check"] >= 0.01
        assert line["seconds"]["time"] >= 0.1
        assert sum(line["stages"].values()) == pytest.approx(sum(line["seconds"].values()), abs=0.1)
        assert {stage.partition(":")[0] for stage in line["stages"]} <= {"analyse", "profile", "build", "check", "time"}
    assert sum(line["seconds"]["waiting"] for line in result) >= 0.1, "one waited while the other measured"


def test_a_run_that_breaks_our_own_code_costs_one_line(
    folder: Path, engineer: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def breaks(text: str, *more: Any, **named: Any) -> Any:
        if "b.py" in text:
            raise RuntimeError("boom")
        return optimize(text, *more, **named)

    monkeypatch.setattr("agents.benchmark.optimize", breaks)
    two = [path for path in programs(folder) if path.name in ("a.py", "b.py")]
    result = {line["file"]: line for line in benchmark(folder, two, options(engineer), 100.0, [FakeHands()])}
    assert result["level1/a.py"]["verdict"] == "verified"
    assert result["level1/b.py"]["verdict"] == "failed"
    assert "boom" in result["level1/b.py"]["error"]


def test_a_line_says_which_invocation_and_commit_it_comes_from_and_what_the_program_says_of_itself(
    folder: Path, tmp_path: Path, engineer: str
) -> None:
    (folder / "level1" / "a.py").write_text(f'"""A thing\n\nFamily: gemm-chain\nSize: large\n"""\n\n{SOURCE}')
    out = tmp_path / "results.jsonl"
    given = ["benchmark", str(folder), "--engineer", engineer, "--minutes", "5", "--out", str(out), "--jobs", "2"]
    assert main(given, lambda: nullcontext(FakeHands())) == 0
    rows = {line["file"]: line for line in lines(out)}
    assert len({line["run_id"] for line in rows.values()}) == 1
    assert rows["level1/a.py"]["commit"]
    assert (rows["level1/a.py"]["family"], rows["level1/a.py"]["size"]) == ("gemm-chain", "large")
    assert rows["level1/b.py"]["family"] is None


def test_the_totals_are_split_by_folder_size_and_family_with_failures_as_one() -> None:
    some = [
        line("ops/a.py", eager=4.0, low=3.9, family="matmul", size="large", operator_coverage=0.5, speedup_vs_compile=2.0,
             ci_compile_low=1.9, run_id="r1", commit="abc"),
        line("ops/b.py", "no-gain", family="matmul", size="small", run_id="r2", commit="abc"),
        line("models/c.py", eager=3.0, low=0.9, family="cnn", size="large", operator_coverage=1.0),
    ]  # fmt: skip
    sums = totals(some)
    assert sums["groups"]["family"]["matmul"] == {
        "programs": 2, "verified": 1, "faster than eager": 1, "faster than compile": 1,
        "over eager": pytest.approx(2.0), "over compile": pytest.approx(math.sqrt(2.0)), "coverage": 0.5,
    }  # fmt: skip
    assert sums["groups"]["size"]["large"]["faster than eager"] == 1
    assert list(sums["groups"]["folder"]) == ["models", "ops"]
    assert sums["runs"] == [("r1", "abc"), ("r2", "abc")]
    assert "run r2 at commit abc" in table(some)


def test_an_interrupted_benchmark_begins_no_further_program(folder: Path) -> None:
    assert list(benchmark(folder, programs(folder), options(), 100.0, [FakeHands()], cancelled=lambda: True)) == []


def line(
    file: str, verdict: str = "verified", eager: float | None = None, low: float | None = None, **more: Any
) -> dict[str, Any]:
    return {"file": file, "verdict": verdict, "speedup_vs_eager": eager, "ci_low": low, "speed": "faster", **more}


def test_the_totals_count_every_program_and_keep_degenerate_ones_out_of_the_means() -> None:
    some = [
        line("a", eager=2.0, low=1.9, speedup_vs_compile=1.0, ci_compile_low=0.9),
        line("b", eager=8.0, low=1.1, speedup_vs_compile=4.0, ci_compile_low=3.9),
        line("c", "no-gain"),
        line("d", eager=100.0, low=90.0, labels=["degenerate"]),
    ]
    sums = totals(some)
    eager, compiled = sums["against"]["eager"], sums["against"]["compile"]
    assert sums["degenerate"] == ["d"]
    assert eager["fast_p"] == {"1": 0.5, "1.2": 0.5, "1.5": 0.5, "2": 0.25, "4": 0.25}
    assert eager["significant_fast_p"] == {"1": 0.5, "1.2": 0.25, "1.5": 0.25, "2": 0.0, "4": 0.0}
    assert eager["geomean_all"] == pytest.approx(16 ** (1 / 4))
    assert eager["geomean_verified"] == pytest.approx(4.0)
    assert compiled["geomean_verified"] == pytest.approx(2.0)


def test_what_is_delivered_is_the_program_or_what_torch_compile_made_where_that_is_better() -> None:
    some = [
        line("a", eager=4.0, low=3.9, speedup_vs_compile=2.0, ci_compile_low=1.9),
        line("b", eager=1.5, low=1.4, speedup_vs_compile=0.5, ci_compile_low=0.4, offered="default", offered_vs_eager=3.0),
        line("c", "no-gain", offered="max-autotune", offered_vs_eager=2.0),
        line("d", "no-gain"),
    ]
    home = totals(some)["delivered"]
    assert (home["programs"], home["offered"]) == (1, 2)
    assert home["over_eager"] == pytest.approx(24 ** (1 / 4))
    assert home["over_compile"] == pytest.approx(2 ** (1 / 4))
    assert "delivered: 1 programs of ours and 2 of torch.compile's" in table(some)


def test_the_last_line_of_a_file_counts() -> None:
    assert latest([line("a", "failed"), line("b"), line("a")]) == [line("a"), line("b")]


def test_the_summary_is_printed_from_a_file_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(
        "\n".join(json.dumps(x) for x in (line("a", eager=2.0, low=1.5), line("b", "refused", error="It crashes.")))
    )
    assert main(["benchmark", "--summary", str(path), "--json"]) == 0
    text = capsys.readouterr().out
    assert "b: It crashes." in text
    assert json.loads(text.splitlines()[-1])["programs"] == 2
    assert table(read_lines(path)) in text
    assert main(["benchmark", "--summary", str(tmp_path / "none")]) == 2


def test_the_totals_of_nothing_claim_nothing() -> None:
    assert totals([])["against"]["eager"]["geomean_all"] is None
