"""The doctor for models: each thing that a new user meets is one sentence that says what, why and what to do."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from agents.__main__ import main
from agents.llm import client
from agents.llm import probe as probing
from agents.llm.doctor import Examined, Finding, examine
from agents.llm.doors import Door
from agents.llm.guard import Guard
from agents.llm.keys import Secret
from agents.model_choice import ModelChoice
from tests.agents.model_server import MODEL, ModelServer, Refuse, Reply, Say, Silence

pytestmark = pytest.mark.xdist_group("litellm")
KEY = "sk-doctor-0123456789abcdef"
COUNTED = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
LONG = "x = x + 1  # a line of a program\n" * 400


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    client.load()


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "FIRST_WAIT_S", 0.01)
    monkeypatch.setattr(probing, "PATIENCE_S", 1.0)


def well(**changed: Reply | Callable[[dict[str, Any]], Reply]) -> Callable[[dict[str, Any]], Reply]:
    """A model that can do everything but what is `changed`: plain, long, tools or structure."""
    can: dict[str, Any] = {
        "plain": Say(COUNTED, usage=(40, 20)),
        "long": Say("ready", usage=(4000, 1)),
        "tools": Say("", calls=(("report", '{"word": "ready"}'),), finish="tool_calls"),
        "structure": Say('{"ready": true}'),
    } | changed

    def reply(body: dict[str, Any]) -> Reply:
        kind = "tools" if "tools" in body else "structure" if "response_format" in body else "plain"
        kind = "long" if len(body["messages"][0]["content"]) > 2000 else kind
        due = can[kind]
        found: Reply = due(body) if callable(due) else due
        return found

    return reply


def seen(url: str, guard: Guard | None = None, **more: Any) -> Examined:
    given = {"model": f"openai/{MODEL}", "api_base": url, "max_tokens": 1000} | more
    return examine(ModelChoice(**given), Door("KEY", Secret("KEY", KEY), guard), long_text=LONG, seconds=20.0)


def of(found: Examined, part: str) -> Finding:
    return next(finding for finding in found.findings if finding.part == part)


def shortly(found: Examined) -> dict[str, str]:
    return {finding.part: finding.health for finding in found.findings}


def test_a_model_that_can_do_everything_is_well() -> None:
    with ModelServer([well()], models=[{"id": MODEL, "max_model_len": 32768}]) as server:
        found = seen(server.url)
    assert found.ok
    assert shortly(found) == dict.fromkeys(("server", "answer", "streaming", "speed", "context", "tools", "structure"), "ok")
    assert set(server.keys) == {f"Bearer {KEY}"}
    assert (found.usage.tokens_in, found.usage.tokens_out) == (4240, 61)
    assert "32768 tokens" in of(found, "context").sentence


@pytest.mark.parametrize(
    ("changed", "part", "health", "words"),
    [
        ({"plain": Refuse(401, "bad key")}, "answer", "bad", "refuses the key KEY (status 401). Check the key"),
        ({"plain": Refuse(404, "model not found")}, "answer", "bad", f"has no model '{MODEL}'"),
        (
            {"plain": Refuse(429, "quota of today", headers={"Retry-After": "900"})},
            "answer",
            "bad",
            "takes no more calls for now",
        ),
        ({"plain": Refuse(402, "add credit")}, "answer", "bad", "wants payment first: add credit"),
        ({"plain": Say("")}, "answer", "bad", "gave an empty answer"),
        ({"plain": Say("", thinking="hm " * 50, finish="length")}, "answer", "bad", "Allow more of them"),
        ({"plain": Refuse(503, "Loading model")}, "answer", "bad", "failed: Loading model"),
        ({"plain": Say(COUNTED, usage=(0, 0))}, "answer", "ok", "counts no tokens"),
        ({"plain": Say(COUNTED, streams=False)}, "streaming", "warn", "does not stream"),
        ({"plain": Say(COUNTED, pieces=16, pause_s=0.08, usage=(9, 16))}, "speed", "warn", "Allow at most"),
        ({"long": Refuse(400, "the maximum context length is 512 tokens")}, "context", "bad", "is too long for it"),
        ({"long": Say("ready", usage=(500, 1))}, "context", "bad", "cuts long questions without a word"),
        ({"tools": Say("ready")}, "tools", "warn", "answered with words instead"),
        ({"tools": Refuse(400, "tools param requires --jinja flag")}, "tools", "warn", "--jinja"),
        ({"tools": Say("", calls=(("report", '{"word'),))}, "tools", "warn", "no JSON object"),
        ({"structure": Say("I am ready!")}, "structure", "warn", "Nothing depends on that"),
        ({"structure": Refuse(400, "response_format is not supported")}, "structure", "warn", "response_format"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_what_a_model_cannot_do_is_one_sentence(changed: dict[str, Any], part: str, health: str, words: str) -> None:
    with ModelServer([well(**changed)]) as server:
        found = seen(server.url, seconds=20.0)
    finding = of(found, part)
    assert (finding.health, found.ok) == (health, health != "bad")
    assert words in finding.sentence
    for one in found.findings:
        assert KEY not in one.sentence
        assert "litellm" not in one.sentence.lower()
        assert one.sentence.endswith((".", "…"))
    if part != "answer" or health == "bad":
        assert [f.part for f in found.findings if f.health != "ok"] == [part]


@pytest.mark.parametrize(
    ("server", "ask", "words"),
    [
        ({"base": "/v1"}, lambda url: url.removesuffix("/v1"), "but at http://127.0.0.1"),
        ({"base": "/api/v1"}, lambda url: url.removesuffix("/api/v1") + "/v1", "/api/v1: give that as the base URL"),
        ({"base": "/v1"}, lambda url: f"{url}/chat/completions", "/v1: give that as the base URL"),
        ({"models": None}, lambda url: url, "is a web page and no API (status 404)"),
        ({"listing": Refuse(401, "who are you?")}, lambda url: url, "refuses the key KEY (status 401)"),
        ({"listing": Refuse(302, headers={"Location": "https://login.example/x?next=1"})}, lambda url: url,
         "sends elsewhere: https://login.example/x."),
        ({}, lambda url: url.replace("http:", "https:"), "Where it is a server without TLS, the base URL is http://127.0.0.1"),
    ],
)  # fmt: skip
def test_a_wrong_url_or_key_is_told_before_a_model_is_asked(server: dict[str, Any], ask: Any, words: str) -> None:
    with ModelServer([well()], **server) as there:
        found = seen(ask(there.url))
    assert shortly(found) == {"server": "bad"}
    assert words in of(found, "server").sentence
    assert there.requests == []


def test_a_server_without_a_list_is_asked_all_the_same() -> None:
    with ModelServer([well()], models=None, page=b'{"error": "not found"}') as server:
        found = seen(server.url)
    assert found.ok
    assert "lists no models" in of(found, "server").sentence


def test_a_model_that_is_not_there_is_told_with_those_that_are() -> None:
    rows = [{"id": f"model-{n}"} for n in range(9)]
    with ModelServer([Refuse(404, "The model `scripted-1` does not exist")], models=rows) as server:
        found = seen(server.url)
    assert shortly(found) == {"server": "ok", "model": "warn", "answer": "bad"}
    assert "The server offers model-0, model-1, model-2, model-3, model-4, model-5 and 3 more." in of(found, "answer").sentence


def test_a_context_that_is_too_short_is_told_from_the_servers_list() -> None:
    with ModelServer([well()], models=[{"id": MODEL, "meta": {"n_ctx": 4096}}]) as server:
        found = seen(server.url)
    assert of(found, "context").health == "warn"
    assert "4096 tokens, question and answer together" in of(found, "context").sentence


@pytest.mark.parametrize(("ahead", "words"), [(7200.0, "2 h behind"), (-600.0, "10 min ahead of")])
def test_a_wrong_clock_is_told(ahead: float, words: str) -> None:
    with ModelServer([well()], ahead_s=ahead) as server:
        found = seen(server.url)
    assert of(found, "clock").health == "warn"
    assert words in of(found, "clock").sentence


def test_a_silent_server_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        found = seen(f"http://127.0.0.1:{silent.getsockname()[1]}/v1")
    assert "takes connections but says nothing" in of(found, "server").sentence
    with ModelServer([Silence(60)]) as server:
        slow = examine(ModelChoice(model=f"openai/{MODEL}", api_base=server.url), Door(), seconds=1.5)
    assert "too slow for runs" in of(slow, "answer").sentence


def test_a_closed_port_and_an_unknown_name_are_told() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
    assert "Nothing listens at 127.0.0.1" in of(seen(f"http://127.0.0.1:{port}/v1"), "server").sentence
    assert "There is no server named no-such-host.invalid" in of(seen("http://no-such-host.invalid/v1"), "server").sentence


def test_what_is_no_web_server_is_told() -> None:
    with _speaks(b"220 mail.example ESMTP\r\n") as port:
        found = seen(f"http://127.0.0.1:{port}/v1")
    assert "does not answer as a web server does" in of(found, "server").sentence


def test_a_site_does_not_look_at_inner_servers_that_it_may_not_ask() -> None:
    with ModelServer([well()]) as server:
        found = seen(server.url, Guard((), "MODEL_SERVERS"))
        assert "MODEL_SERVERS=127.0.0.1" in of(found, "server").sentence
        assert server.keys == []
        assert seen(server.url, Guard(("127.0.0.1",), "MODEL_SERVERS")).ok


@contextmanager
def _speaks(words: bytes) -> Iterator[int]:
    import threading

    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    line, _ = listening.accept()
                except OSError:
                    return
                with line:
                    line.recv(1000)
                    line.sendall(words)

        threading.Thread(target=serve, daemon=True).start()
        yield listening.getsockname()[1]


# ---- certificates


def certificate(folder: Path, begins: int = -1, ends: int = 1, name: str = "127.0.0.1") -> tuple[ssl.SSLContext, Path]:
    """A server's side of TLS with a certificate of its own signing, valid between these days from now; and that certificate."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    who = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a model server")])
    names: list[x509.GeneralName] = [x509.IPAddress(ip_address(name)) if name[0].isdigit() else x509.DNSName(name)]
    made = (
        x509.CertificateBuilder()
        .subject_name(who).issuer_name(who).public_key(key.public_key()).serial_number(1)
        .not_valid_before(now + timedelta(days=begins)).not_valid_after(now + timedelta(days=ends))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    pem, kept = folder / "cert.pem", folder / "key.pem"
    pem.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    kept.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem, kept)
    return context, pem


@pytest.mark.parametrize(
    ("days", "name", "trusted", "words"),
    [
        ((-1, 1), "127.0.0.1", False, "signed by nobody whom this machine knows"),
        ((-9, -2), "127.0.0.1", True, "has expired, by this machine's clock"),
        ((2, 9), "127.0.0.1", True, "is not valid yet, by this machine's clock"),
        ((-1, 1), "models.example", True, "is for another name"),
    ],
)
def test_what_is_wrong_with_a_certificate_is_told(
    days: tuple[int, int], name: str, trusted: bool, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context, pem = certificate(tmp_path, *days, name)
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(pem))
    with ModelServer([well()], tls=context) as server:
        found = seen(server.url)
    assert shortly(found) == {"server": "bad"}
    assert words in of(found, "server").sentence


def test_a_plain_url_for_a_server_with_tls_is_told(tmp_path: Path) -> None:
    context, _ = certificate(tmp_path)
    with ModelServer([well()], tls=context) as server:
        found = seen(server.url.replace("https:", "http:"))
    assert "Where it wants TLS, the base URL is https://127.0.0.1" in of(found, "server").sentence


# ---- the command


def test_the_command_tells_all_and_ends_with_what_it_found(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    command = ["doctor", "--model", f"openai/{MODEL}", "--api-key-env", "MY_KEY", "--json", "--price", "1", "2"]
    with ModelServer([well(tools=Say("no"))]) as server:
        assert main([*command, "--api-base", server.url]) == 0
    told = capsys.readouterr()
    line = json.loads(told.out.splitlines()[-1])
    assert line["ok"]
    assert line["models"][0]["roles"] == ["planner", "coder", "verifier"]
    assert line["models"][0]["usage"]["money"] > 0
    assert "note tools" in told.out
    assert "Runs can use it." in told.out
    assert KEY not in told.out + told.err

    monkeypatch.setenv("MY_KEY", KEY)
    with ModelServer([Refuse(401, "no")]) as server:
        assert main([*command, "--api-base", server.url]) == 1
    assert "Runs cannot use it." in capsys.readouterr().out


def test_the_command_wants_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 2
    assert "--model openai/NAME" in capsys.readouterr().err
