"""A site of its own for the browser: a temporary data folder with the told world, a broker, and one web process.

    with told_site() as site:
        page.goto(site.base + site.login("owner"))

What writes to the database runs in processes of that site's settings (`fill`, `tell`), because the settings of this process
belong to somebody else.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parents[2]


def _chromium() -> str | None:
    """A browser on PATH that starts (some systems ship a stub), as `tools/browser.sh` looks for it. None: Playwright's own."""
    for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"):
        path = shutil.which(name)
        if path and subprocess.run([path, "--version"], capture_output=True, stdin=subprocess.DEVNULL).returncode == 0:
            return path
    return None


CHROMIUM = _chromium()
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--hide-scrollbars",
]  # fmt: skip


_numbers = count()


@dataclass
class Site:
    """`pages` by name, `live_pk` the run that stands in the middle of its story."""

    base: str
    env: dict[str, str]
    pages: dict[str, str]
    live_pk: int
    everybody: dict[str, tuple[str, str]] = field(default_factory=dict)  # all states by name: who looks, where

    def _python(self, code: str, *args: str) -> str:
        command = [sys.executable, "-c", code, *args]
        done = subprocess.run(command, cwd=ROOT, env=self.env, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def login(self, who: str = "ada") -> str:
        """A fresh login path: ada owns the team, vera may only watch, oscar is outside."""
        return self._python(_LOGIN, f"{who}@example.org").strip()

    def tell(self, count: int = 10_000) -> int:
        """The next `count` events of the live run, appended as the orchestrator would; the number of the last."""
        return int(self._python(_TELL, str(self.live_pk), str(count)))


_SETUP = "import sys, django; django.setup()\n"
_FILL = _SETUP + (
    "from django.core.management import call_command\n"
    "call_command('migrate', verbosity=0)\n"
    "call_command('collectstatic', interactive=False, verbosity=0)\n"
    "from tests.stitchweb.world_for_tests import make_world, pages_of\n"
    "import json\n"
    "world = make_world()\n"
    "print(json.dumps({'pages': pages_of(world), 'live': world.live.pk}))\n"
)
_LOGIN = _SETUP + (
    "from stitchweb.teams.models import User\n"
    "from stitchweb.teams.services import make_login_link\n"
    "print(make_login_link(User.objects.get(email=sys.argv[1])))\n"
)
_TELL = _SETUP + ("from tests.stitchweb.world_for_tests import tell_on\nprint(tell_on(int(sys.argv[1]), int(sys.argv[2])))\n")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _environment(data: str, port: int) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "LANG", "TMPDIR")}  # noqa: TID251  for processes
    return kept | {"DATA_DIR": data, "PORT": str(port), "DJANGO_SETTINGS_MODULE": "stitchweb.settings", "PYTHONPATH": str(ROOT)}


def _scaled(env: dict[str, str]) -> dict[str, str]:
    """Beside a PostgreSQL and a Valkey (`make test-scaled`): a database and a number at the broker of this site's own."""
    given = {name: os.environ.get(name, "") for name in ("DATABASE_URL", "REDIS_URL")}  # noqa: TID251  for processes
    if not given["DATABASE_URL"].startswith("postgres"):
        return env
    number = next(_numbers)
    return env | {
        "DATABASE_URL": fresh_database(given["DATABASE_URL"], f"site_{os.getpid()}_{number}"),
        "REDIS_URL": f"{given['REDIS_URL'].rpartition('/')[0]}/{number % 16}",
    }


def fresh_database(server: str, name: str) -> str:
    """The address of an empty database of that name on a server of PostgreSQL."""
    import psycopg

    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        connection.execute(f'CREATE DATABASE "{name}"')
    parts = urlsplit(server)
    return parts._replace(path=f"/{name}").geturl()


def _broker(data: Path) -> list[str]:
    from stitchweb.core.embedded.broker import prepare
    from stitchweb.core.embedded.paths import socket_path

    return prepare(data, socket_path(data))


@contextmanager
def _running(command: list[str], env: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)


def web_process(port: int, env: dict[str, str]) -> Any:
    """The web process as a context manager; usable again after its end, on the same port."""
    return _running([sys.executable, "-m", "daphne", "-b", "127.0.0.1", "-p", str(port), "stitchweb.asgi:application"], env)


def wait_until_served(base: str, seconds: float = 30.0) -> None:
    """Return when the site answers. TimeoutError after `seconds`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            urllib.request.urlopen(f"{base}/health/", timeout=2).read()
            return
        except OSError:
            time.sleep(0.1)
    raise TimeoutError(f"{base} did not answer within {seconds} s")


@contextmanager
def told_site(web: bool = True) -> Iterator[Site]:
    """`web` False: the caller starts the web process, on the port of `site.base`, and may kill it."""
    with tempfile.TemporaryDirectory(prefix="stitchweb-site-", ignore_cleanup_errors=True) as folder:
        port = _free_port()
        env = _scaled(_environment(folder, port))
        done = subprocess.run([sys.executable, "-c", _FILL], cwd=ROOT, env=env, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout.splitlines()[-1])
        site = Site(f"http://127.0.0.1:{port}", env, told["pages"], told["live"])
        with nullcontext() if "REDIS_URL" in env else _running(_broker(Path(folder)), env):
            if not web:
                yield site
                return
            with web_process(port, env):
                wait_until_served(site.base)
                yield site
