"""A whole site in processes of its own, as `manage.py up` starts it: looked at through its database, hurt through signals."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from stitchweb.core.embedded.paths import runtime_dir

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"http://127\.0\.0\.1:\d+/login/\S+")
MARKS = {
    "web": "daphne",
    "agent": "manage.py\0agent",
    "cpu": "gpu_runner.serve",
    "sweeper": "manage.py\0sweep",
    "broker": "-server",
}
T = TypeVar("T")


@dataclass
class Site:
    """A started site. `said` are its lines so far."""

    process: subprocess.Popen[str]
    data: Path
    port: int
    env: dict[str, str]
    said: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.said)

    def link(self) -> str:
        """The login link, once it is printed."""
        found = self.until(lambda: LINK.search(self.text), 90, "a login link")
        return found.group(0)

    def until(self, look: Callable[[], T | None], seconds: float, what: str) -> T:
        """What `look` returns as soon as it is something. Fails with the site's own words after `seconds`, or when it ended."""
        deadline = time.monotonic() + seconds
        while not (seen := look()):
            assert self.process.poll() is None, f"the site ended while waiting for {what}:\n{self.text}"
            assert time.monotonic() < deadline, f"no {what} within {seconds} s:\n{self.text}"
            time.sleep(0.1)
        return seen

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """A query on the site's database, from outside."""
        connection = sqlite3.connect(f"file:{self.data / 'stitchweb.sqlite3'}?mode=ro", uri=True, timeout=10)
        try:
            return connection.execute(sql, values).fetchall()
        finally:
            connection.close()

    def manage(self, code: str) -> Any:
        """Python in the site's own settings; its last line of output is JSON."""
        script = f"import django, json; django.setup()\n{code}"
        done = subprocess.run(
            [sys.executable, "-c", script], cwd=ROOT, env=self.env, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    def pids(self, name: str) -> list[int]:
        """The processes of one of the site's parts: children of the supervisor, by their command."""
        found = []
        for child in _children(self.process.pid):
            with_nulls = Path(f"/proc/{child}/cmdline")
            try:
                if MARKS[name] in with_nulls.read_text():
                    found.append(child)
            except OSError:
                continue
        return found

    def kill(self, name: str) -> None:
        """SIGKILL, and wait until the supervisor has started another."""
        [victim] = self.until(lambda: self.pids(name), 30, f"process {name}")
        os.kill(victim, signal.SIGKILL)
        self.until(lambda: [pid for pid in self.pids(name) if pid != victim], 30, f"new process {name}")


@contextmanager
def whole_site(expect_end: bool = True, **settings: str) -> Iterator[Site]:
    """`manage.py up` with a data folder of its own on a free port; stopped as Ctrl-C does, and nothing of it may be left.

    `expect_end` False: the test itself ends the site.
    """
    data = Path(tempfile.mkdtemp(prefix="stitchweb-up-"))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    kept = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "LANG", "TMPDIR")}  # noqa: TID251  for processes
    env = kept | {"DATA_DIR": str(data), "PORT": str(port), "DJANGO_SETTINGS_MODULE": "stitchweb.settings"} | settings
    process = subprocess.Popen(
        [sys.executable, "manage.py", "up"], cwd=ROOT, env=env, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    site = Site(process, data, port, env)
    listener = threading.Thread(target=lambda: site.said.extend(process.stdout or ()), daemon=True)
    listener.start()
    try:
        yield site
        if expect_end:
            everybody = descendants(process.pid)
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 0, site.text
            left = [pid for pid in everybody if is_alive(pid)]
            assert not runtime_dir(data).exists()
            assert not left, f"left behind: {[Path(f'/proc/{pid}/cmdline').read_text() for pid in left]}"
    finally:
        if process.poll() is None:
            process.kill()  # its children die with it
            process.wait(10)
        shutil.rmtree(data, ignore_errors=True)


def descendants(pid: int) -> list[int]:
    """All processes below one."""
    found = []
    for child in _children(pid):
        found += [child, *descendants(child)]
    return found


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [int(word) for word in task.read_text().split()]
        except OSError:
            continue
    return found


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that is dead and not yet collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
