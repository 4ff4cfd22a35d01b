"""A real small model under two real servers, through the path that every model takes: it ends cleanly, whatever it says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.llm.client import Question, ask, load
from agents.llm.keys import Secret
from agents.state import State
from tools.model_servers import Server, command, started

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("litellm")]
TOKENS = 60_000


@pytest.fixture(scope="module", params=["llama.cpp", "transformers"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with started(request.param) as there:
        yield there


def test_its_answers_stream_and_their_tokens_are_counted(server: Server) -> None:
    load()
    secret = Secret("local", server.key) if server.key else None
    pieces: list[str] = []
    asked = [{"role": "user", "content": "Tell me a story about a compiler."}]
    answer = ask(Question(f"openai/{server.model}", asked, 64, 120.0, server.url, "local", secret), say=pieces.append)
    assert len(pieces) > 8
    assert "".join(pieces) == answer.text
    assert answer.counted
    assert 0 < answer.usage.tokens_out <= 64
    assert answer.first_s < answer.seconds


def test_the_doctor_tells_what_it_can_do(server: Server) -> None:
    status, out, err = command(server, "doctor", "--json", "--max-tokens", "2048")
    assert status == 0, out + err
    found = {one["part"]: one["health"] for one in json.loads(out.splitlines()[-1])["models"][0]["findings"]}
    assert (found["server"], found["answer"]) == ("ok", "ok")
    assert {"tools", "structure", "context"} <= set(found)


@pytest.mark.parametrize("engineer", ["llm", "agentic"])
def test_a_run_ends_cleanly_whatever_the_model_says(server: Server, engineer: str, tmp_path: Path) -> None:
    (tmp_path / "layer.py").write_text(
        "import torch\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return torch.relu(x) * 2 + 1\n\n"
        "def get_inputs():\n    return [torch.randn(256, 1024)]\n\ndef get_init_inputs():\n    return []\n"
    )
    words = ["optimize", str(tmp_path / "layer.py"), "--engineer", engineer, "--attempts", "1", "--minutes", "3", "--json"]
    words += ["--max-tokens", "300", "--context", "8192", "--tokens", str(TOKENS), "--protocol", "quick"]
    status, out, err = command(server, *words, "--out", str(tmp_path / "out"))
    line = json.loads(out.splitlines()[-1])
    assert (status, line["verdict"]) in [(0, "verified"), (3, "no-gain"), (4, "failed")], out + err
    assert "Traceback" not in err
    state = State.model_validate_json((tmp_path / "out" / "state.json").read_text())
    assert state.status.ended
    assert 0 < state.usage.tokens_in + state.usage.tokens_out <= TOKENS
    assert all(path.resolve().is_relative_to(tmp_path) for path in (tmp_path / "out").rglob("*"))
    if server.key:
        assert not any(server.key.encode() in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
