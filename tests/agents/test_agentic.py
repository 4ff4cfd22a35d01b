"""The Coder with tools: a scripted model calls them over HTTP, the hands are played, and every bad call ends in a sentence."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from agents.blobs import MemoryBlobs
from agents.engineers.agentic import engineer as agentic
from agents.engineers.agentic import workbench
from agents.events import Event, View, fold_all
from agents.headless import optimize
from agents.llm import client
from agents.result import verdict_of
from agents.state import Budget, State, Status, StopCause
from gpu_runner.contracts import BuildReport, BuildTask, CheckTask, Verdict
from gpu_runner.hands import HandsError
from tests.agents.loop_world import SOURCE, FakeHands, check, options, timing
from tests.agents.model_answers import CODE, KERNEL, MODEL, fenced
from tests.agents.model_server import ModelServer, Refuse, Reply, Say
from tests.agents.test_llm_engineer import CANDIDATE, KEY, PLAN, chosen, verdict

pytestmark = pytest.mark.xdist_group("litellm")
Turn = Reply | list[tuple[str, Any]] | Callable[[dict[str, Any]], Reply]

WRITE = [("write_file", {"path": "model_new.py", "text": MODEL}), ("write_file", {"path": "kernels/k.cpp", "text": KERNEL})]
FINISH = ("finish", {"summary": "One pass."})


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    client.load()


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "FIRST_WAIT_S", 0.01)


def calls(*wanted: tuple[str, Any]) -> Say:
    return Say(
        "", calls=tuple((n, given if isinstance(given, str) else json.dumps(given)) for n, given in wanted), finish="tool_calls"
    )


def model(turns: Sequence[Turn]) -> Callable[[dict[str, Any]], Reply]:
    """A model whose Coder takes these turns, the last one again and again; its Planner and Verifier say the obvious."""
    left = list(turns)

    def reply(body: dict[str, Any]) -> Reply:
        system = body["messages"][0]["content"]
        if "You are the Planner" in system:
            return Say(PLAN)
        if "You are the Verifier" in system:
            return Say(verdict("stop"))
        turn = left.pop(0) if len(left) > 1 else left[0]
        if callable(turn):
            return turn(body)
        return calls(*turn) if isinstance(turn, list) else turn

    return reply


def run(
    turns: Sequence[Turn], hands: FakeHands | None = None, budget: Budget | None = None, **more: Any
) -> tuple[State, list[Event], ModelServer]:
    events: list[Event] = []
    with ModelServer([model(turns)]) as server:
        wanted = options("agentic", budget=budget or Budget(attempts=1), **chosen(server, **more))
        state = optimize(SOURCE, wanted, hands or FakeHands(), MemoryBlobs(), events.append)
    return state, events, server


def told(events: list[Event]) -> list[dict[str, Any]]:
    return [event.payload for event in events if event.kind == "tool.called"]


def conversation(server: ModelServer) -> list[dict[str, Any]]:
    """All that was said to and by the Coder, as its last question has it."""
    coder = [body for body in server.requests if "You are the Coder" in body["messages"][0]["content"]]
    return list(coder[-1]["messages"])


def results(server: ModelServer) -> list[str]:
    return [message["content"] for message in conversation(server) if message["role"] == "tool"]


def log_of(events: list[Event]) -> str:
    return "".join(str(event.payload["text"]) for event in events if event.kind == "log.lines")


def test_a_program_is_written_built_repaired_verified_timed_profiled_and_handed_in() -> None:
    broken = BuildReport(ok=False, verdict=Verdict.BUILD_FAILED, diagnostics=("k.cpp:1: error: expected ';'",))
    wrong = check(Verdict.INCORRECT, sentence="Element 7 is off by 0.25.")
    hands = FakeHands(build=[broken, BuildReport(ok=True, artifact="a" * 64)], check=[wrong, check()], time=timing(1.8))
    edit = {"path": "kernels/k.cpp", "old": "out[i] = x[i]", "new": "out[i] = 1 * x[i]"}
    turns: list[Turn] = [
        [("list_files", {}), ("read_file", {"path": "reference.py"})],
        WRITE,
        [("build", {})],
        [("edit_file", edit), ("build", {}), ("verify", {})],
        [("edit_file", {**edit, "old": "1 * x", "new": "x"}), ("verify", {}), ("time", {}), ("profile", {})],
        [FINISH],
    ]
    state, events, server = run(turns, hands)
    assert (verdict_of(state), state.best) == ("verified", "c1")
    assert state.candidate("c1").note or state.candidate("c1").title
    said = results(server)
    assert "class Model(torch.nn.Module)" in said[1]
    assert "k.cpp:1: error: expected ';'" in said[4]
    assert "Element 7 is off by 0.25." in said[7]
    assert "verified" in said[9]
    assert "1.800× over eager" in said[10]
    assert "Memory-bound" in said[11]
    names = [payload["tool"] for payload in told(events)]
    assert names == [name for turn in turns for name, _ in turn]  # type: ignore[union-attr]
    view = fold_all(View(), events)
    assert view.asked["coder"].tools["write_file"] == 2
    assert view.asked["coder"].questions == len(turns)
    offered = {tool["function"]["name"] for tool in server.requests[1]["tools"]}
    assert offered == set(names) | {"search", "delete_file"}
    assert all("tools" not in body for body in server.requests if "You are the Coder" not in body["messages"][0]["content"])
    assert KEY not in json.dumps([event.payload for event in events])


def test_what_the_hands_did_for_a_tool_counts_as_their_time() -> None:
    class Slow(FakeHands):
        busy = 0.0

        def perform(self, *given: Any, **more: Any) -> Any:
            began = time.monotonic()
            time.sleep(0.02)
            try:
                return super().perform(*given, **more)
            finally:
                self.busy += time.monotonic() - began

    hands = Slow()
    state, _, _ = run([WRITE, [("build", {}), ("verify", {})], [FINISH]], hands)
    assert len(hands.tasks) > 4
    assert state.usage.device_s >= hands.busy


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (("bash", {"command": "ls"}), "There is no tool 'bash'. Those that there are: list_files"),
        (("", {}), ""),
        (("read_file", '{"path": "model'), "cannot be read"),
        (("read_file", "[1]"), "cannot be read"),
        (("read_file", {}), "needs 'path'"),
        (("read_file", {"path": 3}), "has to be a text"),
        (("read_file", {"path": "reference.py", "first": "soon"}), "has to be a whole number"),
        (("read_file", {"path": "reference.py", "first": True}), "has to be a whole number"),
        (("read_file", {"path": "/etc/passwd"}), "leads out of the candidate's folder"),
        (("read_file", {"path": "../../agents/prompts/coder.md"}), "leads out of the candidate's folder"),
        (("read_file", {"path": "kernels/none.cpp"}), "There is no file kernels/none.cpp"),
        (("search", {"text": " "}), "nothing to search for"),
        (("write_file", {"path": "reference.py", "text": "x = 1"}), "cannot be changed"),
        (("write_file", {"path": "conftest.py", "text": "x = 1"}), "conftest.py"),
        (("write_file", {"path": "kernels/big.cpp", "text": "x" * 300_000 + "\n" + "y" * 50_000}), ""),
        (("write_file", {"path": "candidate.toml", "text": 'flags = ["-fplugin=x.so"]'}), ""),
        (("write_file", {"path": "kernels/k.cpp", "text": "\x00"}), "NUL"),
        (("edit_file", {"path": "model_new.py", "old": "x", "new": "y"}), "There is no file model_new.py"),
        (("delete_file", {"path": "model_new.py"}), "There is no file"),
        (("delete_file", {"path": "../../x.cpp"}), "leads out"),
        (("build", {}), "model_new.py"),
        (("verify", {}), "model_new.py"),
        (("finish", {"summary": "done"}), "Nothing was changed yet"),
    ],
    ids=lambda value: str(value)[:44],
)
def test_a_call_that_cannot_be_done_is_told_and_the_work_goes_on(call: tuple[str, Any], words: str) -> None:
    state, events, server = run([[call], WRITE, [FINISH]], FakeHands(time=timing(1.6)))
    assert verdict_of(state) == "verified"
    if call[0]:
        assert words in results(server)[0]
        assert told(events)[0]["tool"] == call[0]
    for message in conversation(server):
        for one in message.get("tool_calls", ()):
            assert isinstance(json.loads(one["function"]["arguments"]), dict)


def test_a_model_that_calls_the_same_again_and_again_is_stopped() -> None:
    state, events, server = run([[("list_files", {})]])
    assert state.status in (Status.FINISHED, Status.FAILED)
    assert "did nothing of use in 4 turns in a row" in log_of(events) + state.error + json.dumps(
        [event.payload for event in events]
    )
    assert "You had that already" in results(server)[1]
    assert len(told(events)) == 5


def test_a_model_that_never_hands_in_is_at_its_end_after_its_turns_and_its_best_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(agentic, "MOST_TURNS", 8)
    rewritten: list[Turn] = [
        [("write_file", {"path": "kernels/k.cpp", "text": f"{KERNEL}// {n}\n"}), ("verify", {}), ("time", {})] for n in range(9)
    ]
    speeds = [timing(1.2), timing(2.5), timing(1.1)]
    state, events, _ = run([WRITE, *rewritten], FakeHands(time=[*speeds, *[timing(1.3)] * 9]))
    assert "took its 8 turns and did not hand in. The best that it verified is taken." in log_of(events)
    [payload] = [e.payload for e in events if e.kind == "candidate.changed"][:1]
    assert payload["files"]
    assert len([p for p in told(events) if p["tool"] == "time"]) == 7
    assert state.candidates


def test_an_attempt_takes_at_most_its_tokens_and_the_runs_budget_is_not_overrun() -> None:
    def dear(body: dict[str, Any]) -> Reply:
        prompt = sum(len((m.get("content") or "").encode()) // 2 for m in body["messages"])
        made = next(counter)
        text = json.dumps({"path": "kernels/k.cpp", "text": f"// {made}\n"})
        return Say("", calls=(("write_file", text),), usage=(prompt, 60), finish="tool_calls")

    counter = iter(range(10_000))
    state, events, _ = run([WRITE, dear], budget=Budget(attempts=20, tokens=60_000), max_tokens=2000)
    assert state.usage.tokens_in + state.usage.tokens_out <= 60_000
    assert "the most of one attempt, and did not hand in" in log_of(events)
    assert state.candidates


def test_nothing_is_measured_beyond_the_runs_device_seconds() -> None:
    hands = FakeHands()
    state, _, server = run([WRITE, [("build", {})], [FINISH]], hands, Budget(attempts=1, device_s=9.0))
    assert "time for building and measuring is used up" in results(server)[2]
    assert state.candidates


def test_builds_and_measurements_of_one_attempt_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workbench, "MOST_HANDS", 2)
    turns: list[Turn] = [WRITE, [("build", {}), ("verify", {}), ("time", {})], [FINISH]]
    _, _, server = run(turns)
    assert "2 builds and measurements were made" in results(server)[4]


def test_a_machine_that_fails_is_told_to_the_model_and_ends_nothing() -> None:
    hands = FakeHands(build=[HandsError("No compiler is there."), BuildReport(ok=True)], time=timing(1.6))
    state, _, server = run([WRITE, [("build", {})], [FINISH]], hands)
    assert "The machine could not do it: No compiler is there." in results(server)[2]
    assert verdict_of(state) == "verified"


def test_tools_run_programs_with_the_hands_alone_and_on_the_files_in_hand() -> None:
    hands = FakeHands()
    run([WRITE, [("build", {}), ("verify", {})], [FINISH]], hands)
    built = next(task for task in hands.tasks if isinstance(task, BuildTask))
    checked = next(task for task in hands.tasks if isinstance(task, CheckTask))
    assert set(built.candidate.files) == {"model_new.py", "kernels/k.cpp"}
    assert checked.source.text == SOURCE
    assert checked.protocol.name == "quick"


def test_calls_written_as_text_are_calls() -> None:
    def text(*wanted: tuple[str, Any]) -> Say:
        return Say("".join(f"<tool_call>{json.dumps({'name': n, 'arguments': a})}</tool_call>\n" for n, a in wanted))

    state, events, _ = run([text(*WRITE), text(("verify", {})), text(FINISH)], FakeHands(time=timing(1.6)))
    assert verdict_of(state) == "verified"
    assert [payload["tool"] for payload in told(events)] == ["write_file", "write_file", "verify", "finish"]


def test_a_model_that_answers_with_files_has_handed_in() -> None:
    state, events, _ = run([Say(CANDIDATE)], FakeHands(time=timing(1.6)))
    assert verdict_of(state) == "verified"
    assert told(events) == []


def test_prose_is_told_what_is_missing() -> None:
    _, _, server = run([Say("I would fuse it."), WRITE, [FINISH]])
    nudges = [m["content"] for m in conversation(server) if m["role"] == "user"][1:]
    assert "That called no tool, and it is no candidate either" in nudges[0]


@pytest.mark.parametrize("status", [400, 500])
def test_a_server_without_tools_gets_the_ordinary_coder(status: int) -> None:
    def reply(body: dict[str, Any]) -> Reply:
        return Refuse(status, "tools param requires --jinja flag") if "tools" in body else Say(CANDIDATE)

    state, events, server = run([reply], FakeHands(time=timing(1.6)))
    assert verdict_of(state) == "verified"
    assert "It seems to take no tools, so it is asked for the files." in log_of(events)
    assert any("tools" in body for body in server.requests)


def test_a_conversation_that_is_too_long_for_the_model_is_cut_where_it_is_oldest() -> None:
    def tight(body: dict[str, Any]) -> Reply:
        size = sum(len(m.get("content") or "") for m in body["messages"][2:])
        if size > 20_000:
            return Refuse(400, "maximum context length is 8000 tokens")
        n = len(body["messages"])
        return calls(("read_file", {"path": "kernels/k.cpp", "first": n})) if n < 12 else calls(FINISH)

    long = [("write_file", {"path": "model_new.py", "text": MODEL})]
    long.append(("write_file", {"path": "kernels/k.cpp", "text": "".join(f"// line {n} of many\n" for n in range(400))}))
    state, events, _ = run([long, tight], FakeHands(time=timing(1.6)))
    assert "It is asked once more, with less of what was said." in log_of(events)
    assert verdict_of(state) == "verified"


def test_bad_answers_to_a_coder_with_tools_end_as_stated_outcomes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the ordinary Coder is tried with, as answers and as arguments: nothing crashes, and nothing leaves the folder."""
    monkeypatch.setattr(agentic, "MOST_USELESS", 1)
    texts = [text for text, _ in CODE if len(text) < 20_000 and "\udcff" not in text][::4]
    for text in texts:
        for turn in (
            Say(text, pieces=1),
            calls(("write_file", text)),
            calls(("edit_file", {"path": text, "old": "a", "new": "b"})),
        ):
            state, events, _ = run([turn])
            assert state.status.ended
            assert "failed: " not in log_of(events)
            assert "Traceback" not in json.dumps([event.payload for event in events])
            for candidate in state.candidates:
                assert all(p in ("model_new.py", "candidate.toml") or p.startswith("kernels/") for p in candidate.files)


def test_the_budget_ends_a_run_whose_coder_has_nothing_to_hand_in() -> None:
    state, _, _ = run([[("list_files", {})]], budget=Budget(attempts=3, tokens=9000), max_tokens=4000)
    assert state.stop_cause is StopCause.BUDGET_TOKENS or state.status.ended
    assert state.usage.tokens_in + state.usage.tokens_out <= 9000


def test_a_fenced_program_alone_is_handed_in_too() -> None:
    state, _, _ = run([Say(fenced(MODEL))], FakeHands(time=timing(1.6)))
    assert verdict_of(state) == "verified"


def test_a_key_that_a_server_puts_into_a_call_is_in_no_file_event_task_or_state() -> None:
    text = f"{MODEL}# {KEY}\n"
    hands, turns = (
        FakeHands(time=timing(1.6)),
        [[("write_file", {"path": "model_new.py", "text": text}), ("verify", {})], [FINISH]],
    )
    blobs, events = MemoryBlobs(), list[Event]()
    with ModelServer([model(turns)]) as server:  # type: ignore[arg-type]
        wanted = options("agentic", budget=Budget(attempts=1), **chosen(server))
        state = optimize(SOURCE, wanted, hands, blobs, events.append)
    assert verdict_of(state) == "verified"
    everything = [state.model_dump_json(), *(event.model_dump_json() for event in events)]
    everything += [task.model_dump_json() for task in hands.tasks] + [data.decode() for data in blobs._bytes.values()]
    assert any("[key]" in one for one in everything)
    assert not any(KEY in one for one in everything)
