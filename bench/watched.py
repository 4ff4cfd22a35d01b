"""What the processes of a runner do, seen from outside: who lives, who is at work, who holds a device."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from pathlib import Path

from start_up import descendants, processes

Process = tuple[int, str]  # pid and start time


def line_of(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip()
    return ""


def named(family: set[Process]) -> str:
    return "; ".join(f"{pid} {line_of(pid)[:60]}" for pid, _ in sorted(family)) or "none"


def remaining(family: set[Process], seconds: float) -> set[Process]:
    """Which of them live after so long, or none as soon as none does."""
    deadline = time.monotonic() + seconds
    while (left := family & processes().keys()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def sandboxed(pid: int) -> set[Process]:
    """The processes of sandboxes below a runner: whatever a template forked, and not the templates, which stay for the next
    job."""
    family = descendants(pid)
    templates = {one for one, _ in family if "keeper.template" in line_of(one)}  # its forks bear the same line
    living = processes()
    parents = {one: parent for (one, _), parent in living.items()}

    def forked(one: int) -> bool:
        while one != pid and (one := parents.get(one, pid)) != pid:
            if one in templates:
                return True
        return False

    return {key for key in family if forked(key[0])}


def cpu_s(pid: int) -> float:
    """Seconds of processor time so far; 0 when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class NoDevice:
    """Looks, while it lasts, whether any process of a runner has a CUDA context: those hold `/dev/nvidia-uvm`. (What tells the
    site how busy a machine is opens the driver's other files, in a runner for builds, too.)"""

    def __init__(self, pid: int) -> None:
        self.pid, self.looks, self.seen = pid, 0, set[str]()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> NoDevice:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(0.05):
            for pid, _ in descendants(self.pid):
                with contextlib.suppress(OSError):
                    opened = {os.readlink(place) for place in Path(f"/proc/{pid}/fd").iterdir()}
                    if any(path.startswith("/dev/nvidia-uvm") for path in opened):
                        self.seen.add(line_of(pid)[:60])
            self.looks += 1
