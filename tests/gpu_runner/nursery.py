"""Owners of sandboxes that die at any moment: run in a process of its own by `test_sandbox_leftovers.py`.

It adopts every orphan below it, so that what stays is exactly what its owners left. Prints one JSON object.
"""

from __future__ import annotations

import dataclasses
import json
import os
import random
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from sandboxes import SMALL, adopt_orphans, dead

from gpu_runner.config import Config, config
from gpu_runner.hands import Cancelled, HandsError
from gpu_runner.sandbox import Sandbox, SandboxSpec, cgroup, template
from gpu_runner.sandbox.keeper.main import descendants

Life = Callable[[Config, random.Random], None]


def _made(settings: Config) -> Sandbox:
    return Sandbox(settings, SMALL, 1, ())


def holds(settings: Config, chance: random.Random) -> None:
    with _made(settings) as sandbox:
        sandbox.assign(SandboxSpec(role="probe", limits=SMALL))
        time.sleep(60)


def has_a_child_of_its_own(settings: Config, chance: random.Random) -> None:
    """A forked process holds copies of all descriptors, as a prefork worker's does."""
    with _made(settings):
        if os.fork() == 0:
            time.sleep(1)
            os._exit(0)
        time.sleep(60)


def starts_from_a_thread(settings: Config, chance: random.Random) -> None:
    for _ in range(2):
        threading.Thread(target=_made, args=(settings,), daemon=True).start()
    time.sleep(60)


def cancels(settings: Config, chance: random.Random) -> None:
    """Never killed: starts, asks, cancels, kills and closes at random moments, and must end with nothing."""
    threads = [threading.Thread(target=_one_short, args=(settings, random.Random(chance.random()))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    template.shared("plain").close()
    if len(descendants(os.getpid())) > 1:
        os._exit(3)


def _one_short(settings: Config, chance: random.Random) -> None:
    end = time.monotonic() + chance.uniform(0, 0.1)
    with _made(settings) as sandbox:
        timer = threading.Timer(chance.uniform(0, 0.1), sandbox.kill)
        timer.start()
        try:
            sandbox.assign(SandboxSpec(role="probe", limits=SMALL))
            payload = {"program": "import os, time\nif os.fork(): os.setsid() if os.fork() == 0 else 0\ntime.sleep(60)"}
            sandbox.request("run", payload, cancelled=lambda: time.monotonic() > end)
        except (HandsError, Cancelled):
            pass
    timer.join()


LIVES: tuple[Life, ...] = (holds, has_a_child_of_its_own, starts_from_a_thread, cancels)


def _wait_for_a_moment(owner: int, chance: random.Random) -> None:
    """Some time, or the first sight of its second to sixth descendant: bubblewrap is in the middle of its start then."""
    end = time.monotonic() + chance.uniform(0, 0.15)
    wanted = chance.choice((99, 99, 3, 4, 5, 6))
    while time.monotonic() < end and len(descendants(owner)) < wanted:
        if wanted == 99:
            time.sleep(0.001)


def alive_below() -> list[str]:
    return [_name(pid) for pid in descendants(os.getpid())[1:] if not dead(str(pid))]


def _name(pid: int) -> str:
    try:
        return f"{Path(f'/proc/{pid}/comm').read_text().strip()} {Path(f'/proc/{pid}/cmdline').read_text()[:200]!r}"
    except OSError:
        return ""


def _bury() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def main(owners: int, kind: str, seed: int, folder: str) -> None:
    """`folder`: an empty one for temporary files."""
    adopt_orphans(True)
    tempfile.tempdir = folder
    chance = random.Random(seed)
    settings = dataclasses.replace(config(), sandbox=kind)
    cgroup.base()
    mine: list[int] = []
    wrong: list[str] = []
    for number in range(owners):
        life = LIVES[number % len(LIVES)]
        owner = os.fork()
        if owner == 0:
            life(settings, chance)
            os._exit(0)
        mine.append(owner)
        if life is not cancels:
            _wait_for_a_moment(owner, chance)
            os.kill(owner, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(owner, 0)[1])
        if life is cancels and status != 0:
            wrong.append(f"an owner that cancelled ended with {status}")
    deadline = time.monotonic() + 10
    while alive_below() and time.monotonic() < deadline:
        time.sleep(0.02)
        _bury()
    cgroup.base.cache_clear()
    base = cgroup.base()  # sweeps, as the next runner does: an owner may die between making a group and starting its keeper
    groups = [
        str(folder)
        for parent in {base.memory, base.pids}
        for owner in mine
        for folder in parent.glob(f"stitchweb-{owner}-*")
        if base.kind != "none"
    ]
    print(json.dumps({"alive": alive_below(), "groups": groups, "files": os.listdir(folder), "wrong": wrong}))
    for pid in reversed(descendants(os.getpid())[1:]):
        os.kill(pid, signal.SIGKILL)
