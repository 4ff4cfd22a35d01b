"""The ground: settings that speak up, headers, ports, the broker's command, children that are kept and ended."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.http import HttpResponse
from django.test import Client, RequestFactory

from stitchweb.core.databases import database
from stitchweb.core.embedded import broker, running
from stitchweb.core.embedded.paths import kept_secret, socket_path
from stitchweb.core.embedded.ports import holder, is_free
from stitchweb.core.embedded.supervisor import CannotStart, Child, Supervisor
from stitchweb.core.env import Environment
from stitchweb.core.middleware import security_headers
from stitchweb.core.settings_page import page

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("values", "read", "said"),
    [
        ({"X": "maybe"}, lambda env: env.flag("X", True, ""), "neither true nor false"),
        ({"X": "ten"}, lambda env: env.number("X", 1, ""), "not a whole number"),
        ({"X": "10"}, lambda env: env.number("X", 1, "", high=9), "between 0 and 9"),
        ({"X": "green"}, lambda env: env.choice("X", "", ("red", "blue"), ""), "one of red, blue"),
        ({"X": "a", "X_FILE": "/b"}, lambda env: env.secret("X", "", ""), "Keep one of them"),
        ({"X_FILE": "/nowhere/at/all"}, lambda env: env.secret("X", "", ""), "cannot be read"),
    ],
)
def test_a_setting_that_cannot_be_understood_is_said(values: dict[str, str], read: Any, said: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=said):
        read(Environment(values))


def test_settings_are_read_in_their_types(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("from a file\n")
    env = Environment({"A": "yes", "B": "7", "C": "x, y", "D_FILE": str(tmp_path / "secret"), "E": "~"})
    assert env.flag("A", False, "") is True
    assert env.number("B", 1, "") == 7
    assert env.words("C", (), "") == ["x", "y"]
    assert env.secret("D", "", "") == "from a file"
    assert env.path("E", Path("/"), "", "") == Path.home()
    assert env.text("F", "default", "") == "default"


def test_the_page_of_settings_is_what_the_code_reads() -> None:
    assert (ROOT / "docs" / "settings.md").read_text() == page(), "run: manage.py settings_table --write"


POOL = {"min_size": 0, "max_size": 80, "timeout": 5}


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("sqlite:////tmp/a.db", {"NAME": Path("/tmp/a.db")}),
        ("postgresql://u:p%40w@db:5433/site?sslmode=require",
         {"NAME": "site", "USER": "u", "PASSWORD": "p@w", "HOST": "db", "PORT": "5433",
          "OPTIONS": {"options": "-c lock_timeout=20s", "pool": POOL, "sslmode": "require"}}),
        ("postgresql:///site?host=/run/pg&options=-c%20lock_timeout%3D1s",
         {"HOST": "/run/pg", "OPTIONS": {"options": "-c lock_timeout=1s", "pool": POOL}}),
    ],
)  # fmt: skip
def test_database_addresses_are_understood(url: str, expected: dict[str, Any], tmp_path: Path) -> None:
    assert expected.items() <= database(url, tmp_path).items()


def test_an_unknown_database_is_said(tmp_path: Path) -> None:
    with pytest.raises(ImproperlyConfigured, match="mysql"):
        database("mysql://x", tmp_path)


def test_the_kept_secret_is_made_once_and_private(tmp_path: Path) -> None:
    file = tmp_path / "new" / "secret_key"
    first = kept_secret(file)
    assert len(first) > 60
    assert kept_secret(file) == first
    assert file.stat().st_mode & 0o077 == 0
    assert list(file.parent.iterdir()) == [file]


def test_the_brokers_socket_fits_into_an_address(tmp_path: Path) -> None:
    assert len(str(socket_path(tmp_path / ("long" * 40)))) < 100


def test_the_broker_is_private_and_answers(tmp_path: Path) -> None:
    socket_file = socket_path(tmp_path)
    process = subprocess.Popen(broker.prepare(tmp_path, socket_file), stdout=subprocess.DEVNULL)
    try:
        broker.wait(socket_file)
        assert socket_file.parent.stat().st_mode & 0o077 == 0
        with pytest.raises(broker.BrokerError, match="Another StitchWeb"):
            broker.prepare(tmp_path, socket_file)
    finally:
        process.terminate()
        process.wait(10)
        broker.clean(socket_file)
    assert not socket_file.parent.exists()


def test_a_runtime_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    with pytest.raises(broker.BrokerError, match="not a folder of this user alone"):
        broker.prepare(tmp_path, folder / "broker.sock")


def test_who_holds_a_port_is_told() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        assert not is_free("127.0.0.1", port)
        assert f"process {os.getpid()} (" in holder(port)
    assert is_free("127.0.0.1", port)


@pytest.fixture
def supervisor() -> Any:
    said: list[tuple[str, str]] = []
    keeper = Supervisor(lambda name, line: said.append((name, line)), ROOT)
    keeper.said = said  # type: ignore[attr-defined]
    yield keeper
    keeper.stop()


def child(name: str, code: str, **more: Any) -> Child:
    return Child(name, [sys.executable, "-c", code], **more)


def wait_for(look: Any) -> None:
    deadline = time.monotonic() + 20
    while not look():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_what_a_child_says_is_told_with_its_name(supervisor: Any) -> None:
    supervisor.start(child("talker", "print('hello', flush=True); import time; time.sleep(60)"))
    wait_for(lambda: ("talker", "hello") in supervisor.said)


def test_a_child_that_cannot_start_is_an_error_with_its_last_words(supervisor: Any) -> None:
    supervisor.start(child("broken", "raise SystemExit('no such thing')"))
    with pytest.raises(CannotStart, match="no such thing"):
        wait_for(supervisor.check)


def test_a_child_that_dies_later_is_started_again(supervisor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stitchweb.core.embedded.supervisor.YOUNG_S", 0.0)
    supervisor.start(child("mortal", "import time; time.sleep(60)"))
    first = supervisor.children[0].process
    first.kill()
    first.wait()
    wait_for(lambda: supervisor.check() or (supervisor.children[0].process not in (None, first)))


def test_stopping_ends_children_and_their_children(supervisor: Any) -> None:
    code = (
        "import signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "grand = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(grand.pid, flush=True); time.sleep(600)"
    )
    supervisor.start(child("stubborn", code, grace_s=0.3))
    wait_for(lambda: supervisor.said)
    grandchild = int(supervisor.said[0][1])
    supervisor.stop()
    assert supervisor.children[0].process.poll() is not None
    wait_for(lambda: not Path(f"/proc/{grandchild}").exists() or "Z" in Path(f"/proc/{grandchild}/stat").read_text())


def test_every_answer_forbids_what_is_inline_or_foreign(db: None) -> None:
    answer = Client().get("/health/")
    assert answer.json() == {"ok": True}
    policy = answer["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe-inline" not in policy
    assert answer["X-Frame-Options"] == "DENY"
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert "private" in answer["Cache-Control"]


@pytest.mark.parametrize(
    ("path", "status", "may"),
    [
        ("/static/vendor/speedscope/index.html", 200, True),
        ("/static/vendor/speedscope/index.html", 304, True),
        ("/static/vendor/speedscope/../../../runs/1/", 404, False),
        ("/static/vendor/other/index.html", 200, False),
        ("/static/css/base.css", 200, False),
        ("/runs/1/", 200, False),
    ],
)
def test_only_the_vendored_viewer_may_write_a_style_of_its_own(path: str, status: int, may: bool) -> None:
    answer = security_headers(lambda request: HttpResponse(status=status))(RequestFactory().get(path))
    policy = dict(part.split(" ", 1) for part in answer["Content-Security-Policy"].split("; "))
    assert policy.pop("style-src") == ("'self' 'unsafe-inline'" if may else "'self'")
    assert policy["script-src"] == "'self'"
    assert not any("unsafe" in value for value in policy.values())


def test_the_site_imports_no_torch_and_no_model_client() -> None:
    code = (
        "import django, sys; from stitchweb import use_settings; use_settings(); django.setup()\n"
        "import stitchweb.asgi, stitchweb.urls\n"
        "print([name for name in ('torch', 'litellm', 'numpy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stderr


def test_a_running_site_is_found_by_its_broker_and_never_by_a_note_left_behind(tmp_path: Path) -> None:
    socket_file = socket_path(tmp_path)
    with running.noted(tmp_path, "http://127.0.0.1:8123"):
        assert running.address(tmp_path, socket_file) == ""
        process = subprocess.Popen(broker.prepare(tmp_path, socket_file), stdout=subprocess.DEVNULL)
        try:
            broker.wait(socket_file)
            assert running.address(tmp_path, socket_file) == "http://127.0.0.1:8123"
        finally:
            process.terminate()
            process.wait(10)
            broker.clean(socket_file)
    assert not (tmp_path / "address").exists()


def test_a_port_that_a_stranger_holds_is_said_with_its_holder(settings: Any, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        settings.HOST, settings.PORT = server.getsockname()
        settings.DATA_DIR, settings.BROKER_SOCKET = tmp_path, socket_path(tmp_path)
        with pytest.raises(CommandError, match=rf"Port {settings.PORT} is in use by .*choose another port"):
            call_command("up")
