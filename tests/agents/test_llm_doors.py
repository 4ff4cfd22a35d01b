"""The way to a model on a shared site: which addresses are asked, what a server that repeats a key shows, whose prompts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agents.blobs import MemoryBlobs
from agents.events import Event, View, fold_all
from agents.headless import optimize
from agents.llm.client import Question, ask
from agents.llm.failures import ModelError
from agents.llm.guard import Forbidden, Guard
from agents.llm.keys import HIDDEN, Secret, Veil, without_secrets
from agents.state import Budget
from gpu_runner.contracts import BlobRef
from tests.agents.loop_world import SOURCE, FakeHands, options
from tests.agents.model_server import ModelServer, Refuse, Say
from tests.agents.test_llm_engineer import by_role, chosen

pytestmark = pytest.mark.xdist_group("litellm")
KEY = "sk-door-0f1e2d3c4b5a69788796"


def leads_to(*addresses: str, allowed: tuple[str, ...] = ()) -> Guard:
    return Guard(allowed, "MODEL_SERVERS", lambda host, port: addresses)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.8.8.8", "0.0.0.0", "10.1.2.3", "172.16.0.9", "192.168.1.1", "169.254.169.254", "100.64.0.1",
        "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1%eth0", "fc00::1", "ff02::1", "::ffff:127.0.0.1",
        "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2002:a9fe:a9fe::1",
    ],
)  # fmt: skip
def test_an_inner_address_is_refused_under_any_name_with_the_setting_that_would_allow_it(address: str) -> None:
    for others in ((), ("93.184.215.14",)):
        with pytest.raises(Forbidden, match=r"no public address.*MODEL_SERVERS=models\.example:8080"):
            leads_to(*others, address).addresses("http://models.example:8080/v1")


@pytest.mark.parametrize("address", ["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c", "64:ff9b::5db8:d70e"])
def test_a_public_address_needs_nobodys_leave(address: str) -> None:
    assert leads_to(address).addresses("https://models.example/v1") == (address,)


def test_what_is_allowed_by_name_port_address_or_network_is_asked_and_nothing_beside_it() -> None:
    for word, url, well in [
        ("models.lan", "http://models.lan:8080/v1", True),
        ("Models.LAN:8080", "http://models.lan:8080/v1", True),
        ("models.lan:8081", "http://models.lan:8080/v1", False),
        ("10.1.0.0/16", "http://models.lan:8080/v1", True),
        ("10.2.0.0/16", "http://models.lan:8080/v1", False),
        ("10.1.2.3", "http://models.lan:8080/v1", True),
        ("lan", "http://models.lan:8080/v1", False),
    ]:
        guard = leads_to("10.1.2.3", allowed=(word,))
        if well:
            assert guard.addresses(url) == ("10.1.2.3",), word
        else:
            with pytest.raises(Forbidden):
                guard.addresses(url)


def test_a_name_without_an_address_is_a_sentence() -> None:
    def nothing(host: str, port: int) -> list[str]:
        raise OSError("no such host")

    with pytest.raises(Forbidden, match=r"There is no server named 'nowhere\.example'"):
        Guard(look_up=nothing).addresses("http://nowhere.example/v1")


def question(server: ModelServer, guard: Guard | None) -> Question:
    # A name that no resolver knows: the connection can only go where the guard's own look-up said.
    url = server.url.replace("127.0.0.1", "models.invalid")
    return Question(
        "openai/scripted-1", [{"role": "user", "content": "Hi"}], 100, 20.0, url, "mine", Secret("mine", KEY), guard=guard
    )


def test_the_connection_goes_to_the_address_that_was_judged() -> None:
    with ModelServer([Say("Hello.")]) as server:
        asked: list[str] = []

        def once(host: str, port: int) -> list[str]:
            asked.append(host)
            return ["::1", "127.0.0.1"] if len(asked) == 1 else ["127.0.0.9"]  # nothing answers at the first

        answer = ask(question(server, Guard(("models.invalid",), look_up=once)))
    assert answer.text == "Hello."
    assert asked == ["models.invalid"]
    assert server.keys == [f"Bearer {KEY}"]


def test_an_inner_server_is_not_asked_and_a_redirect_is_not_followed() -> None:
    with ModelServer([Say("You should not see this.")]) as inner:
        with pytest.raises(ModelError, match="no public address"):
            ask(question(inner, leads_to("127.0.0.1")))
        with ModelServer([Refuse(307, headers={"Location": f"{inner.url}/chat/completions"})]) as outer:
            with pytest.raises(ModelError, match="sends elsewhere, which is not followed"):
                ask(question(outer, leads_to("127.0.0.1", allowed=("models.invalid",))))
            assert outer.requests
    assert inner.requests == []


@pytest.mark.parametrize("name", ["responses/scripted-1", "o1-pro", "gpt-5.1-codex", "gpt-3.5-turbo-instruct"])
def test_no_name_of_a_model_leads_around_the_guard(name: str) -> None:
    with ModelServer([Say("You should not see this.")]) as inner:
        asked = replace(question(inner, leads_to("127.0.0.1")), model=f"openai/{name}", api_base=inner.url)
        with pytest.raises(ModelError):
            ask(asked)
    assert inner.requests == []


def test_a_key_that_a_server_repeats_is_shown_nowhere() -> None:
    shown: list[str] = []
    with ModelServer([Say(f"You gave me {KEY}, sk-door.", pieces=30)]) as server:
        guarded = question(server, leads_to("127.0.0.1", allowed=("models.invalid",)))
        answer = ask(guarded, say=shown.append)
    assert answer.text == "".join(shown) == f"You gave me {HIDDEN}, sk-door."


def test_an_answer_that_begins_like_the_key_is_an_answer_and_is_not_asked_for_twice() -> None:
    with ModelServer([Say("sk-door")]) as server:
        answer = ask(question(server, leads_to("127.0.0.1", allowed=("models.invalid",))))
    assert answer.text == "sk-door"
    assert len(server.requests) == 1


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_a_key_is_hidden_wherever_it_is_cut(size: int) -> None:
    text = f"sk-door-0f {KEY} and {KEY}{KEY[:9]}"
    veil = Veil(Secret("mine", KEY))
    shown = "".join(veil.over(text[at : at + size]) for at in range(0, len(text), size)) + veil.rest()
    assert shown == f"sk-door-0f {HIDDEN} and {HIDDEN}{KEY[:9]}"


def test_what_looks_like_a_key_is_not_kept_and_programs_are() -> None:
    text = 'token = "ghp_' + "a1B2" * 9 + '"  # AKIAIOSFODNN7EXAMPLE\nsk = skip_connection(x)'
    assert without_secrets(text) == f'token = "{HIDDEN}"  # {HIDDEN}\nsk = skip_connection(x)'


def test_a_run_tells_each_question_once_and_asks_with_the_prompts_of_its_team() -> None:
    blobs, events = MemoryBlobs(), list[Event]()
    own = blobs.put(b"You are the Planner, and you write {{target}} in capitals.")
    with ModelServer([by_role()]) as server:
        wanted = options("llm", budget=Budget(attempts=3), **chosen(server), prompts={"planner": own})
        state = optimize(SOURCE + "\n# ghp_" + "a1B2" * 9 + "\n", wanted, FakeHands(), blobs, events.append)
    told = [event.payload for event in events if event.kind == "model.asked"]
    assert len(told) == len(server.requests)
    assert [p["role"] for p in told[:3]] == ["planner", "coder", "verifier"]
    view = fold_all(View(), events)
    assert sum(asked.tokens_in for asked in view.asked.values()) == state.usage.tokens_in
    assert not view.asked["coder"].price_known
    assert state.usage.unpriced == state.usage.tokens_in + state.usage.tokens_out > 0
    planner = next(body for body in server.requests if "Planner" in body["messages"][0]["content"])
    assert planner["messages"][0]["content"] == "You are the Planner, and you write cpu in capitals."
    kept = "".join(data.decode() for data in (blobs.get(BlobRef.model_validate(p["blob"])) for p in told))
    assert HIDDEN in kept
    assert "ghp_" not in kept
