"""What the tests of the sandbox share: a process that runs any program, and a look at whether anything of it is left."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from hostile_programs import program

from gpu_runner.contracts import Limits
from gpu_runner.sandbox import Sandbox, SandboxSpec

SMALL = Limits(wall_s=20, memory_mib=192, processes=48, tmp_mib=24, output_kib=256)


def start(limits: Limits = SMALL, files: Mapping[str, bytes | str] | None = None) -> Sandbox:
    return Sandbox.start(SandboxSpec(role="probe", limits=limits, files=files or {}, threads=1))


def run(sandbox: Sandbox, body: str, **more: Any) -> Any:
    """The `result` of a program, run inside."""
    return sandbox.request("run", {"program": program(body)}, **more)["result"]


def namespace_of(sandbox: Sandbox) -> str:
    """The pid namespace that the sandbox made, as the kernel names it."""
    with open(f"/proc/{sandbox.pid}/task/{sandbox.pid}/children") as file:
        first = file.read().split()[0]
    name = os.readlink(f"/proc/{first}/ns/pid")
    assert name != os.readlink("/proc/self/ns/pid")
    return name


def processes_in(namespace: str) -> list[str]:
    """Host pids of what lives in a pid namespace; the dead whose parent has not looked yet do not count."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/ns/pid") == namespace and not _dead(pid):
                found.append(pid)
        except OSError:
            continue
    return found


def _dead(pid: str) -> bool:
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] in "ZX"
