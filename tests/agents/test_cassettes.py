"""Cassettes: a run on a model is recorded without keys, and played again without a model to the same events, byte for byte."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from agents.__main__ import main
from agents.blobs import MemoryBlobs
from agents.events import Event
from agents.headless import optimize
from agents.llm import cassette, client
from agents.llm.cassette import Cassette, Heard, NoCassette, Recorder, load, named, shipped, source_digest
from agents.llm.doors import through
from agents.model_choice import ModelChoice
from agents.result import verdict_of
from agents.state import Budget, State, Usage
from gpu_runner.contracts import BuildReport, Verdict
from gpu_runner.hands import Cancelled
from tests.agents.loop_world import SOURCE, FakeHands, check, options, timing
from tests.agents.model_server import ModelServer, Refuse, Say
from tests.agents.test_llm_engineer import CANDIDATE, KEY, PLAN, by_role, chosen, edit, verdict

pytestmark = pytest.mark.xdist_group("litellm")
OTHERS = "ghp_" + "a1B2" * 9


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cassette, "SLOWEST_S", 0.0)
    monkeypatch.setattr(client, "FIRST_WAIT_S", 0.01)


def hands() -> FakeHands:
    broken = BuildReport(ok=False, verdict=Verdict.BUILD_FAILED, diagnostics=("k.cpp:1: error: no semicolon",))
    checks = [check(Verdict.INCORRECT, sentence="Element 7 is off by 0.25."), check()]
    return FakeHands(build=[broken, BuildReport(ok=True)], check=checks, time=timing(1.8))


def story() -> Any:
    codes = [
        "I would fuse it.",
        CANDIDATE,
        edit("kernels/k.cpp", "out[i] = x[i];", "out[i] = 2 * x[i];"),
        edit("kernels/k.cpp", "2 * x", "1 * x"),
    ]
    return by_role(codes=codes, verdicts=[verdict("retry"), verdict("retry"), verdict("stop")])


def run(choices: dict[str, Any], line: cassette.Line | None = None, engineer: str = "llm") -> tuple[State, list[Event]]:
    events, ticks = list[Event](), iter(range(1_000_000))
    wanted = options(engineer, budget=Budget(attempts=6), **choices)
    with through(line):
        state = optimize(SOURCE, wanted, hands(), MemoryBlobs(), events.append, clock=lambda: 1e9 + next(ticks))
    return state, events


def recorded(path: Path, script: Any = None) -> tuple[State, list[Event], dict[str, Any]]:
    with ModelServer([script or story()]) as server:
        choices = chosen(server)
        state, events = run(choices, Recorder(path, SOURCE, "example.py", "A chain is fused."))
        assert server.requests
    return state, events, choices


def test_a_run_that_is_played_tells_the_same_events_byte_for_byte_without_a_model(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    first, told, choices = recorded(path)  # its server has ended: nothing can be asked any more
    assert verdict_of(first) == "verified"
    again, played = run(choices, load(path))
    assert [event.model_dump_json() for event in played] == [event.model_dump_json() for event in told]
    assert again.model_dump_json() == first.model_dump_json()


def test_a_recording_holds_answers_and_no_key_and_no_question(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    thanks = Say(f"Your key is {KEY}, theirs is {OTHERS}.\n{PLAN}", pieces=40)
    recorded(path, lambda body: thanks if "You are the Planner" in body["messages"][0]["content"] else Say(CANDIDATE))
    text = path.read_text()
    assert KEY not in text
    assert OTHERS not in text
    assert "[key]" in text
    assert "You are the Planner" not in text
    assert SOURCE not in json.loads(text).__repr__()
    kept = load(path)
    assert (kept.program, kept.source, kept.about) == ("example.py", source_digest(SOURCE), "A chain is fused.")


def test_errors_are_recorded_and_played(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    first, _, choices = recorded(path, Refuse(401, f"bad key {KEY}"))
    again, _ = run(choices, load(path))
    assert "refuses the key TEST_KEY" in first.error
    assert again.error == first.error
    assert KEY not in path.read_text()


def test_a_recording_is_a_model_by_its_name_and_labelled_as_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    recorded(path)
    choice = ModelChoice(model=f"cassette/{path}")
    state, events = run({"models": dict.fromkeys(("planner", "coder", "verifier"), choice)})
    assert verdict_of(state) == "verified"
    log = "".join(str(event.payload["text"]) for event in events if event.kind == "log.lines")
    assert "A recording is played, no model is asked: the coder's part" in log
    assert events[0].payload["models"]["coder"] == f"cassette/{path}"
    asked = [event.payload for event in events if event.kind == "model.asked"]
    assert sum(payload["tokens_in"] for payload in asked) == state.usage.tokens_in > 0


def test_an_answer_is_found_by_its_place_and_else_the_next_one_of_the_role() -> None:
    def heard(role: Any, step: int, n: int = 0) -> Heard:
        return Heard(role=role, step=step, n=n, model="m", pieces=(f"{role} {step} {n}",))

    tape = Cassette(heard=(heard("planner", 2), heard("coder", 3), heard("coder", 3, 1), heard("coder", 9)))

    def said(role: Any, step: int, n: int = 0) -> str:
        found = tape.due(role, step, n)
        return found.pieces[0] if found else ""

    assert said("coder", 3, 1) == "coder 3 1"
    assert said("coder", 3, 2) == said("coder", 5) == "coder 9 0"
    assert said("coder", 10) == said("verifier", 0) == ""


def test_a_run_that_goes_another_way_ends_as_a_stated_outcome(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    recorded(path)
    whole = load(path)
    short = whole.model_copy(update={"heard": whole.heard[:3]})
    choice = ModelChoice(model="openai/scripted-1")
    state, events = run({"models": dict.fromkeys(("planner", "coder", "verifier"), choice)}, short)
    assert state.status.ended
    assert "The recording has no further answer for the" in json.dumps([event.payload for event in events])


def test_a_cancel_is_heard_while_a_recording_is_played(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cassette, "SLOWEST_S", 60.0)
    tape = Cassette(heard=(Heard(role="coder", step=0, n=0, model="m", pieces=("a", "b"), seconds=60.0, usage=Usage()),))
    with pytest.raises(Cancelled):
        tape.ask(client.Question("m", [], 10, 10.0), None, lambda text: None, lambda: True, lambda: 0.0, ("coder", 0, 0))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "cannot be read"),
        ("", "is no recording of this version"),
        ("[]", "is no recording of this version"),
        ('{"format": 2, "heard": []}', "format"),
        ('{"heard": [{"role": "boss", "step": 0, "n": 0, "model": "m"}]}', "heard.0.role"),
        ('{"heard": [], "shell": "rm"}', "shell"),
    ],
)
def test_what_is_no_recording_is_refused_with_a_sentence(text: str | None, words: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(NoCassette, match=words):
        load(path)


def test_the_demo_engineer_needs_a_recording_about_the_program() -> None:
    with pytest.raises(NoCassette, match=r"no recording about this program. The demo engineer plays those of: .*\.py"):
        named("cassette/auto", SOURCE)
    choice = ModelChoice(model="cassette/auto")
    state, _ = run({"models": dict.fromkeys(("planner", "coder", "verifier"), choice)}, engineer="demo")
    assert "no recording about this program" in state.error


def test_each_shipped_recording_is_about_an_example_and_is_whole() -> None:
    root = Path(__file__).resolve().parents[2] / "examples"
    assert len(shipped()) >= 3
    for name, tape in shipped().items():
        source = (root / tape.program).read_text()
        assert tape.source == source_digest(source), f"{name} is about another version of {tape.program}"
        assert named("cassette/auto", source).program == tape.program
        assert tape.about.endswith(".")
        assert {one.role for one in tape.heard} >= {"planner", "coder", "verifier"}
        assert not cassette.without_secrets(json.dumps(tape.model_dump())).count("[key]")


def test_the_command_records_and_plays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, tape = tmp_path / "layer.py", tmp_path / "run.json"
    source.write_text(SOURCE)
    command = ["optimize", str(source), "--json", "--attempts", "2", "--engineer", "llm"]
    with ModelServer([by_role()]) as server:
        given = ["--model", "openai/scripted-1", "--api-base", server.url, "--out", str(tmp_path / "a"), "--record", str(tape)]
        main([*command, *given], lambda: nullcontext(FakeHands()))
    first = json.loads(capsys.readouterr().out.splitlines()[-1])
    main([*command, "--model", f"cassette/{tape}", "--out", str(tmp_path / "b")], lambda: nullcontext(FakeHands()))
    again = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (again["verdict"], again["error"]) == (first["verdict"], first["error"])
