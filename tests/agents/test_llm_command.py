"""The command line of the model engineer: which role takes what, and the sentences for what cannot be."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from agents.__main__ import main
from agents.model_choice import ModelChoice
from agents.state import State
from tests.agents.loop_world import SOURCE, FakeHands
from tests.agents.model_server import ModelServer, Say

KEY = "sk-command-0f1e2d3c4b5a"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "layer.py"
    path.write_text(SOURCE)
    return path


def said(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def optimize(source: Path, *more: str) -> int:
    command = ["optimize", str(source), "--out", str(source.parent / "out"), "--json", "--attempts", "1", *more]
    return main(command, lambda: nullcontext(FakeHands()))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--engineer", "llm"], "needs a model for the planner"),
        (["--engineer", "llm", "--model", "coder=openai/x"], "needs a model for the planner"),
        (["--engineer", "offline", "--verifier", "llm"], "needs a model for the verifier"),
        (["--engineer", "llm", "--model", "openai/x", "--api-base", "localhost:8000"], "http://"),
        (["--engineer", "llm", "--model", "openai/x", "--api-base", "http://me:secret@host/v1"], "no user, password or key"),
        (["--engineer", "llm", "--model", "openai/x", "--api-base", "http://host/v1?key=secret"], "no user, password or key"),
        (["--engineer", "llm", "--model", "openai/x", "--api-key-env", "NO_SUCH_KEY"], "NO_SUCH_KEY"),
        (["--engineer", "llm", "--model", "openai/x", "--coder", "offline"], "its own Planner"),
        (["--width", "2", "--beam", "3"], "raise --width"),
        (["--planner", "nobody"], "no engineer named 'nobody'"),
    ],
    ids=lambda value: " ".join(value)[-40:] if isinstance(value, list) else "",
)
def test_what_cannot_be_is_said_before_anything_runs(
    more: list[str], words: str, source: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    assert optimize(source, *more) == 4
    line = said(capsys)
    assert line["verdict"] == "failed"
    assert words in line["error"]
    assert not (source.parent / "out").exists()


@pytest.mark.parametrize("url", ["ftp://host", "host", "http://", "file:///etc/passwd", "//host/v1"])
def test_a_base_url_is_one(url: str) -> None:
    with pytest.raises(ValidationError, match="base URL"):
        ModelChoice(model="openai/x", api_base=url)


@pytest.mark.xdist_group("litellm")
def test_each_role_may_have_its_own_model_server_and_key(
    source: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODER_KEY", KEY)
    with ModelServer([Say("I write no code.")]) as coder, ModelServer([Say('{"todos": [{"title": "Fuse"}]}')]) as others:
        more = ["--engineer", "llm", "--verifier", "offline", "--model", "openai/big", "--model", "coder=openai/small"]
        more += ["--api-base", others.url, "--api-base", f"coder={coder.url}", "--api-key-env", "coder=CODER_KEY"]
        assert optimize(source, *more, "--tokens", "50000", "--money", "2.5", "--price", "1", "2") == 3
    assert [body["model"] for body in others.requests] == ["big"]
    assert {body["model"] for body in coder.requests} == {"small"}
    assert others.keys == ["Bearer none"]
    assert set(coder.keys) == {f"Bearer {KEY}"}
    state = State.model_validate_json((source.parent / "out" / "state.json").read_text())
    assert set(state.options.models) == {"planner", "coder"}
    assert (state.options.budget.tokens, state.options.budget.money) == (50_000, 2.5)
    assert state.usage.money > 0
    result = json.loads((source.parent / "out" / "result.json").read_text())
    assert result["models"] == {"planner": "openai/big", "coder": "openai/small"}
    written = b"".join(path.read_bytes() for path in (source.parent / "out").rglob("*") if path.is_file())
    assert b"CODER_KEY" in written
    assert KEY.encode() not in written
    assert KEY not in "".join(capsys.readouterr())


@pytest.mark.xdist_group("litellm")
def test_what_a_model_says_is_shown_by_whole_lines(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = "\n".join(f"line {i} of the model's thoughts" for i in range(30))
    with ModelServer([Say('{"todos": [{"title": "Fuse"}]}'), Say(words, pieces=100, pause_s=0.02)]) as server:
        optimize(source, "--engineer", "llm", "--verifier", "offline", "--model", "openai/x", "--api-base", server.url)
    shown = capsys.readouterr().err
    for i in range(30):
        assert f"line {i} of the model's thoughts\n" in shown
