"""What the tests of the sandbox share: a process that runs any program, and a look at whether anything of it is left."""

from __future__ import annotations

import ctypes
import dataclasses
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hostile_programs import program

from gpu_runner.config import SandboxKind, config
from gpu_runner.contracts import Limits
from gpu_runner.sandbox import Sandbox, SandboxSpec, launch, recipe, slots
from gpu_runner.sandbox.keeper.main import children, descendants

SMALL = Limits(wall_s=20, memory_mib=192, processes=48, tmp_mib=24, output_kib=256)


# The boundaries that hold on this machine, for tests of both.
LANDLOCK = pytest.param("landlock", marks=pytest.mark.skipif(bool(launch.no_landlock()), reason=launch.no_landlock()))


def start(limits: Limits = SMALL, files: Mapping[str, bytes | str] | None = None, kind: SandboxKind = "bubblewrap") -> Sandbox:
    spec = SandboxSpec(role="probe", limits=limits, files=files or {}, threads=1)
    if kind == "bubblewrap":
        return Sandbox.start(spec)
    sandbox = Sandbox(dataclasses.replace(config(), sandbox=kind), limits, 1, ())
    sandbox.assign(spec)
    return sandbox


def run(sandbox: Sandbox, body: str, **more: Any) -> Any:
    """The `result` of a program, run inside."""
    return sandbox.request("run", {"program": program(body)}, **more)["result"]


def namespace_of(sandbox: Sandbox) -> str:
    """What all processes of the sandbox have in common, and no other has: its pid namespace by its name, or its user."""
    *_, last = descendants(sandbox.pid)
    name = os.readlink(f"/proc/{last}/ns/pid")
    if name == os.readlink("/proc/self/ns/pid"):
        assert os.getuid() == 0, "only root gives each sandbox a user of its own"
        name = f"uid {os.stat(f'/proc/{last}').st_uid}"
    return name


def processes_in(namespace: str) -> list[str]:
    """Host pids of what lives in a pid namespace; the dead whose parent has not looked yet do not count."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            has = (os.readlink(f"/proc/{pid}/ns/pid"), f"uid {os.stat(f'/proc/{pid}').st_uid}")
            if namespace in has and not dead(pid):
                found.append(pid)
        except OSError:
            continue
    return found


def dead(pid: str) -> bool:
    """Whether a process has ended, buried or not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def adopt_orphans(wanted: bool) -> None:
    """Has the kernel make every orphan below this process its child, instead of the machine's first process's."""
    ctypes.CDLL(None).prctl(36, int(wanted), 0, 0, 0)


def strays() -> dict[int, str]:
    """Sandboxed processes that are children of this one, by their pid: their keeper is gone, or they never had one."""
    found = {}
    programs = (str(recipe.CHILD_FOLDER / "main.py"), f"{recipe.CHILD_INSIDE}/main.py")
    for pid in children(os.getpid()):
        try:
            uid = os.stat(f"/proc/{pid}").st_uid
            name, line = (Path(f"/proc/{pid}/{file}").read_text() for file in ("comm", "cmdline"))
        except OSError:
            continue
        own_user = 0 <= uid - config().uid_base < slots.SLOTS
        if (own_user or name == "bwrap\n" or any(program in line for program in programs)) and not dead(str(pid)):
            found[pid] = line.replace("\0", " ")[:200]
    return found


CANARY = "canary-8d1f27"
ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def worth_stealing(folder: Path, limits: Limits) -> Iterator[dict[str, str]]:
    """Things of the host worth stealing or hurting, by the names that hostile programs use. At the end nobody was hurt."""
    secret = folder / "secret"
    secret.write_text(CANARY)
    abstract = f"stitchweb-test-{os.getpid()}"
    with (
        pytest.MonkeyPatch.context() as patch,
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as unix,
        subprocess.Popen(["sleep", "600"]) as victim,
    ):
        patch.setenv("STITCHWEB_CANARY", CANARY)
        unix.bind(f"\0{abstract}")
        unix.listen()
        try:
            yield {
                "home": str(Path.home()),
                "project": str(ROOT),
                "secret": str(secret),
                "canary": CANARY,
                "port": str(server.getsockname()[1]),
                "abstract": abstract,
                "victim": str(victim.pid),
                "python": sys.prefix,
                "tmp_bytes": str(limits.tmp_mib << 20),
            }
            assert victim.poll() is None, "a sandboxed program ended a process of the host"
        finally:
            victim.kill()
