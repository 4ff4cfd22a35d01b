"""One question to a model: real HTTP to a scripted server, through LiteLLM as it is shipped."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from typing import Any

import pytest

from agents.llm import client
from agents.llm.client import Answer, Price, Question, ask, known_price
from agents.llm.failures import ModelError
from agents.llm.keys import HIDDEN, NoKey, Secret, key_of, take_from_environment
from agents.llm.tokens import tokens_in_text
from gpu_runner.hands import Cancelled
from tests.agents.model_server import ModelServer, Raw, Refuse, Reply, Say, Silence

pytestmark = pytest.mark.xdist_group("litellm")  # its import takes seconds: in one worker, not in each
KEY = "sk-test-0123456789abcdef"


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "FIRST_WAIT_S", 0.01)


def question(server: ModelServer | str, **more: Any) -> Question:
    url = server if isinstance(server, str) else server.url
    given: dict[str, Any] = {
        "model": "openai/scripted-1",
        "messages": [{"role": "user", "content": "Make it fast."}],
        "max_tokens": 100,
        "seconds": 20.0,
        "api_base": url,
        "key_name": "TEST_KEY",
        "secret": Secret("TEST_KEY", KEY),
    }
    return Question(**given | more)


def answer_to(*replies: Reply, price: Price | None = None, **more: Any) -> tuple[Answer, ModelServer, str]:
    said: list[str] = []
    with ModelServer(replies) as server:
        answer = ask(question(server, **more), price, said.append)
    return answer, server, "".join(said)


def failure_of(*replies: Reply, **more: Any) -> tuple[ModelError, ModelServer]:
    with ModelServer(replies) as server, pytest.raises(ModelError) as caught:
        ask(question(server, **more))
    return caught.value, server


def test_an_answer_streams_in_and_is_counted_as_the_server_counts() -> None:
    pieces: list[str] = []
    with ModelServer([Say("Fuse the chain.", pieces=5)]) as server:
        answer = ask(question(server, temperature=0.2), Price(1e-6, 2e-6), pieces.append)
    assert answer.text == "".join(pieces) == "Fuse the chain."
    assert len(pieces) == 5
    assert (answer.finish, answer.counted, answer.tries) == ("stop", True, 1)
    assert (answer.usage.tokens_in, answer.usage.tokens_out) == (100, 20)
    assert answer.usage.money == pytest.approx(140e-6)
    body = server.requests[0]
    assert (body["model"], body["max_tokens"], body["temperature"], body["stream"]) == ("scripted-1", 100, 0.2, True)
    assert server.keys == [f"Bearer {KEY}"]


def test_without_a_key_none_of_the_environment_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    _, server, _ = answer_to(Say("Yes."), secret=None, key_name="")
    assert server.keys == ["Bearer none"]


@pytest.mark.parametrize("usage", [(-5, 3), ("many", 2), (10**12, 1), (5, True)])
def test_counts_that_are_none_are_replaced_by_an_estimate(usage: tuple[Any, Any]) -> None:
    answer, _, _ = answer_to(Say("A plain answer.", usage=usage))
    assert answer.text == "A plain answer."
    assert 0 < answer.usage.tokens_in < 10**9
    assert 0 < answer.usage.tokens_out < 10**9


def test_a_server_that_does_not_stream_is_asked_once_more_without() -> None:
    answer, server, said = answer_to(Say("Whole.", streams=False))
    assert (answer.text, said) == ("Whole.", "Whole.")
    assert [bool(body.get("stream")) for body in server.requests] == [True, False]


def test_a_cut_answer_says_so() -> None:
    answer, _, _ = answer_to(Say("def forward(", finish="length"))
    assert answer.finish == "length"


def test_a_model_that_thinks_aloud_answers_with_its_answer_alone() -> None:
    answer, _, said = answer_to(Say("42", thinking="Let me see."))
    assert (answer.text, said) == ("42", "42")


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_or_failing_server_is_asked_again(status: int) -> None:
    answer, server, said = answer_to(Refuse(status, "slow down"), Refuse(status, "slow down"), Say("At last."))
    assert (answer.text, answer.tries, len(server.requests)) == ("At last.", 3, 3)
    assert "Trying again" in said


def test_a_server_that_stays_busy_is_left_after_four_tries() -> None:
    error, server = failure_of(Refuse(429, "quota used up"))
    assert (error.kind, len(server.requests)) == ("busy", client.MOST_TRIES)
    assert "quota used up" in str(error)


def test_a_server_that_wants_more_patience_than_there_is_time_is_not_waited_for() -> None:
    error, server = failure_of(Refuse(429, "later", headers={"Retry-After": "3600"}))
    assert (error.kind, len(server.requests), error.wait_s) == ("busy", 1, 3600.0)


def test_a_line_that_drops_in_the_middle_may_have_cost_something_and_is_for_the_caller_to_try_again() -> None:
    error, server = failure_of(Say("Half of it and mo", cut=True))
    assert (error.kind, len(server.requests)) == ("server", 1)
    assert error.usage.tokens_in > 0
    assert error.usage.tokens_out > 0


@pytest.mark.parametrize(
    ("reply", "kind", "words"),
    [
        (Refuse(401, f"Incorrect API key provided: {KEY}"), "key", "TEST_KEY"),
        (Refuse(403, "not for you"), "key", "may use"),
        (Refuse(402, "top up"), "payment", "top up"),
        (Refuse(404, "The model `scripted-1` does not exist", "model_not_found"), "model", "no model 'scripted-1'"),
        (Refuse(404, body=b"<html>nothing here</html>"), "address", "/v1"),
        (Refuse(400, "This model's maximum context length is 4096 tokens."), "overflow", "longer"),
        (Refuse(400, "the request exceeds the available context size"), "overflow", "longer"),
        (Refuse(413, "too large"), "overflow", "longer"),
        (Refuse(400, "violates our content policy"), "refused", "content policy"),
        (Refuse(400, "unknown field foo"), "request", "unknown field foo"),
        (Refuse(422, "x" * 5000), "request", "…"),
        (Say("", finish="content_filter"), "refused", "withheld"),
        (Say("", finish="stop"), "empty", "empty answer"),
        (Say(" \n "), "empty", "empty answer"),
        (Say("", finish="length", thinking="so long"), "empty", "thinking"),
        (Say("", refusal="I will not."), "empty", "empty answer"),
        (Raw(b""), "server", ""),
        (Raw(b"data: nonsense\n\n"), "server", ""),
        (Raw(b"\xff\xfe\x00\x01"), "server", ""),
        (Raw(b"<html>not a stream</html>"), "server", ""),
        (Raw(b'data: {"error": {"message": "out of memory", "code": 500}}\n\n'), "server", "out of memory"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_what_goes_wrong_is_a_sentence(reply: Reply, kind: str, words: str) -> None:
    error, _ = failure_of(reply)
    assert error.kind == kind or (kind == "server" and error.kind == "empty")
    assert words in str(error)
    assert KEY not in str(error)
    assert str(error)[0].isupper() or str(error).startswith("scripted-1")
    assert len(str(error)) < 600
    assert "\n" not in str(error)
    assert "litellm" not in str(error).lower()


def test_a_key_that_a_server_repeats_is_hidden() -> None:
    error, _ = failure_of(Refuse(400, f"the header {KEY} is odd"))
    assert HIDDEN in str(error)
    assert KEY not in repr(error)


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/v1", "http://no-such-host.invalid/v1"])
def test_a_server_that_is_not_there_is_named(url: str) -> None:
    with pytest.raises(ModelError) as caught:
        ask(question(url))
    assert url in str(caught.value)


def test_a_model_without_a_provider_is_explained() -> None:
    error, server = failure_of(Say("x"), model="scripted-1")
    assert error.kind == "model"
    assert "openai/scripted-1" in str(error)
    assert not server.requests


def test_a_silent_server_is_left_when_it_has_been_silent_too_long() -> None:
    error, server = failure_of(Silence(60), stall_s=1.0)
    assert (error.kind, len(server.requests)) == ("timeout", 1)


def test_an_answer_that_never_ends_is_left_when_its_time_is_over() -> None:
    error, _ = failure_of(Say("x" * 400, pieces=400, pause_s=0.05), seconds=1.5)
    assert error.kind == "timeout"
    assert error.usage.tokens_out > 0


def test_an_answer_without_end_is_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "MOST_CHARACTERS", 10_000)
    error, _ = failure_of(Say("x" * 100_000, pieces=50))
    assert error.kind == "huge"
    assert error.usage.tokens_out >= 5_000


@pytest.mark.parametrize("reply", [Silence(60), Say("x" * 100, pieces=100, pause_s=0.2), Refuse(503, "starting")])
def test_a_cancel_is_heard_while_the_model_is_silent_slow_or_away(reply: Reply, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "FIRST_WAIT_S", 15.0)

    def once_asked() -> bool:
        return bool(server.requests)

    with ModelServer([reply]) as server, pytest.raises(Cancelled):
        ask(question(server), cancelled=once_asked)


def test_a_tool_call_that_nobody_offered_is_seen_as_one() -> None:
    answer, _, _ = answer_to(Say("", tools=True, finish="tool_calls"))
    assert answer.finish == "tools"


def test_prices_come_from_the_list_that_is_shipped() -> None:
    price = known_price("openai/gpt-4o")
    assert price is not None
    assert 0 < price.tokens_in < price.tokens_out < 1e-3
    assert known_price("openai/scripted-1") is None


@pytest.mark.parametrize("text", ["", "x", "é" * 50, "def f(x):\n    return x + 1\n" * 20, "\ud800"])
def test_the_estimate_of_tokens_is_not_below_a_real_tokenizer(text: str) -> None:
    real = client._litellm().token_counter(model="gpt-4o", text=text.encode(errors="replace").decode())
    assert tokens_in_text(text) >= real


def test_a_key_shows_itself_nowhere() -> None:
    secret = Secret("TEST_KEY", KEY)
    shown = [str(secret), repr(secret), f"{secret}", f"{secret:>30}", repr([secret]), repr(question("http://x", secret=secret))]
    assert not any(KEY in text for text in shown)
    for write in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError):
            write(secret)


def test_a_key_is_taken_out_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_MODEL_KEY", KEY)
    take_from_environment("SOME_MODEL_KEY")
    secret = key_of("SOME_MODEL_KEY")
    assert secret is not None
    assert secret.reveal() == KEY
    child = subprocess.run(
        [sys.executable, "-c", "import os; print(dict(os.environ))"], capture_output=True, text=True, check=True
    )
    assert KEY not in child.stdout


@pytest.mark.parametrize("text", [None, "", "  ", "two\nlines", "ключ"])
def test_a_variable_without_a_usable_key_is_explained(text: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOME_MODEL_KEY", raising=False)
    if text is not None:
        monkeypatch.setenv("SOME_MODEL_KEY", text)
    with pytest.raises(NoKey, match="SOME_MODEL_KEY"):
        take_from_environment("SOME_MODEL_KEY")


def test_a_name_that_nobody_offered_has_no_key() -> None:
    assert key_of("") is None
    with pytest.raises(NoKey, match="DJANGO_SECRET"):
        key_of("DJANGO_SECRET")


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    """LiteLLM takes seconds to import; no test's own time should hold them."""
    client._litellm()


_CYCLES = """
import contextvars, gc
from agents.llm import client

client.load()
from litellm.litellm_core_utils.litellm_logging import Logging
from litellm.litellm_core_utils.streaming_handler import CustomStreamWrapper

others = [contextvars.ContextVar(str(i)) for i in range(20)]  # many enough for a tree of more than one level
[variable.set(object()) for variable in others]
log = Logging.__new__(Logging)
log._pre_call_trace_id = log._pre_call_session_id = log._own_trace_id = log._own_session_id = ""
for often in range(20, 40):
    gc.collect()
    gc.set_threshold(often)
    for i in range(500):
        stream = CustomStreamWrapper.__new__(CustomStreamWrapper)
        stream.logging_obj, stream.itself = log, stream
        others[i % 20].set(object())
"""


def test_streams_that_the_cycle_collector_finds_end_no_process() -> None:
    spoilt = {"PYTHONMALLOC": "debug"}  # what is freed cannot be read by luck
    done = subprocess.run([sys.executable, "-c", _CYCLES], capture_output=True, text=True, env=spoilt)
    assert done.returncode == 0, done.stderr[-2000:]
