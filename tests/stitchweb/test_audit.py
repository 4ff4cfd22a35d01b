"""The dependency audit: what it asks, and what it says of the answer. The server is a small one of ours."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tools import audit

ASKED: list[dict[str, object]] = []


class Database(BaseHTTPRequestHandler):
    """Knows one advisory: of Django."""

    def do_POST(self) -> None:
        queries = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["queries"]
        ASKED.extend(queries)
        results = [{"vulns": [{"id": "PYSEC-1"}]} if q["package"]["name"] == "django" else {} for q in queries]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"results": results}).encode())

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    ASKED.clear()
    with HTTPServer(("127.0.0.1", 0), Database) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{http.server_address[1]}"
        http.shutdown()


def test_every_pin_is_asked_about_and_an_advisory_fails(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit.main(["--server", server]) == 1
    said = capsys.readouterr().out
    assert "https://osv.dev/PYSEC-1" in said
    asked = {(q["package"]["name"], q["version"]) for q in ASKED}  # type: ignore[index]
    assert asked == set(audit.pins())
    assert {"django", "torch", "django-allauth", "cffi"} <= {name for name, _ in asked}


def test_one_that_was_looked_at_passes_and_is_named(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit.main(["--server", server, "--allow", "PYSEC-1"]) == 0
    assert "allowed: PYSEC-1" in capsys.readouterr().out


def test_without_a_server_nothing_is_claimed(capsys: pytest.CaptureFixture[str]) -> None:
    assert audit.main(["--server", "http://127.0.0.1:9"]) == 2
    assert "nothing is known" in capsys.readouterr().err
