"""Proves the boundary before anything untrusted is put behind it: hostile probes that must all be stopped."""

from __future__ import annotations

import os
import threading

from gpu_runner.config import Config, config
from gpu_runner.contracts import Limits
from gpu_runner.sandbox.errors import SandboxUnavailable
from gpu_runner.sandbox.process import Sandbox
from gpu_runner.sandbox.spec import SandboxSpec

_lock = threading.Lock()
_passed = False


def require() -> None:
    """Runs the probes once per process. Raises SandboxUnavailable with the cause, every time, while one is not stopped."""
    global _passed
    if _passed or config().sandbox == "unsafe":
        return
    with _lock:
        if not _passed:
            if broken := run():
                raise SandboxUnavailable(
                    f"The sandbox of this machine does not hold ({'; '.join(broken)}), so no program is run. "
                    "Run `python -m gpu_runner doctor` and fix what it names."
                )
            _passed = True


def question(settings: Config) -> dict[str, bool]:
    """What the probe must know: behind which kind of boundary it should find itself."""
    namespaces = settings.sandbox == "bubblewrap"
    return {"namespaces": namespaces, "own_uid": namespaces or os.getuid() == 0}


def run(settings: Config | None = None) -> list[str]:
    """The probes that were not stopped, as short phrases; none when the boundary holds. SandboxUnavailable if there is none."""
    settings = settings or config()
    limits = Limits(wall_s=30, memory_mib=512, processes=64, tmp_mib=16)
    with Sandbox(settings, limits, 1, ()) as sandbox:
        sandbox.assign(SandboxSpec(role="probe", limits=limits, threads=1))
        answer = sandbox.request("selftest", question(settings))
    return [str(name) for name in answer.get("not_stopped", ["the probes gave no answer"])]
