"""The kernel's resource groups: one per sandbox, which bounds all of its memory (files in memory and inodes too) and processes.

The strongest of what this machine allows: `v2` (a delegated group), `v1` (writable memory and pids controllers) or `none`,
where a watchdog reads resident sizes instead and cannot see every kind of memory.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from gpu_runner.contracts import Limits

Kind = Literal["v2", "v1", "none"]
_ROOT = Path("/sys/fs/cgroup")
_PREFIX = "stitchweb-"
_counter = itertools.count()


@dataclass(frozen=True)
class Base:
    """Where groups can be made. `memory` and `pids` are the same folder on v2."""

    kind: Kind
    memory: Path = _ROOT
    pids: Path = _ROOT


@dataclass
class Group:
    """The groups of one sandbox; removed by `remove` once they are empty."""

    kind: Kind
    folders: tuple[Path, ...] = ()

    @property
    def procs(self) -> list[str]:
        return [str(folder / "cgroup.procs") for folder in self.folders]

    def memory_kills(self) -> int:
        """How often the kernel killed a process of this group for memory."""
        for folder in self.folders:
            for name in ("memory.events", "memory.oom_control"):
                with contextlib.suppress(OSError):
                    for line in (folder / name).read_text().splitlines():
                        word, _, value = line.partition(" ")
                        if word == "oom_kill":
                            return int(value)
        return 0

    def pids(self) -> list[int]:
        """Processes still in the group."""
        for folder in self.folders:
            with contextlib.suppress(OSError):
                return [int(word) for word in (folder / "cgroup.procs").read_text().split()]
        return []

    def remove(self, patience_s: float = 2.0) -> bool:
        """Removes the groups; an empty one can stay busy for a moment. False when one is left."""
        deadline = time.monotonic() + patience_s
        for folder in self.folders:
            while True:
                try:
                    folder.rmdir()
                except FileNotFoundError:
                    break
                except OSError:
                    if time.monotonic() > deadline:
                        return False
                    time.sleep(0.005)
                else:
                    break
        return True


def _own(controller: str) -> Path | None:
    """The folder of this process's group: of a v1 controller, or of v2 for an empty name."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        if (names == "" and controller == "") or controller in names.split(","):
            mount = _ROOT / controller if controller else _ROOT
            folder = mount / path.lstrip("/")
            return folder if folder.is_dir() else mount if mount.is_dir() else None
    return None


def _works(base: Base) -> bool:
    """Makes and removes a group, which is the only reliable question."""
    try:
        group = _make(base, Limits())
    except OSError:
        return False
    return group.remove()


def _v2_candidates() -> list[Path]:
    own = _own("")
    if own is None or not (own / "cgroup.controllers").exists():
        return []
    # A group that has processes of its own cannot give controllers to its children; a runner therefore sits in a leaf beside
    # them (systemd: Delegate=yes with DelegateSubgroup=runner), and the parent is where sandboxes go.
    return [own, own.parent] if own != _ROOT else [own]


@lru_cache(maxsize=1)
def base() -> Base:
    """The strongest kind that works here, found once by trying."""
    for folder in _v2_candidates():
        with contextlib.suppress(OSError):
            control = folder / "cgroup.subtree_control"
            if {"memory", "pids"} - set(control.read_text().split()):
                control.write_text("+memory +pids")
        found = Base("v2", folder, folder)
        if _works(found):
            return _swept(found)
    memory, pids = _own("memory"), _own("pids")
    if memory is not None and pids is not None:
        found = Base("v1", memory, pids)
        if _works(found):
            return _swept(found)
    return Base("none")


def _swept(found: Base) -> Base:
    """Removes what runners that were killed left behind; a group that is still in use refuses."""
    for parent in {found.memory, found.pids}:
        for folder in parent.glob(f"{_PREFIX}*"):
            owner = folder.name.removeprefix(_PREFIX).split("-")[0]
            if not Path("/proc", owner).exists():
                with contextlib.suppress(OSError):
                    folder.rmdir()
    return found


def make(limits: Limits) -> Group:
    """A fresh group with the limits' memory and processes, or an empty one where the machine has none to give."""
    found = base()
    return Group("none") if found.kind == "none" else _make(found, limits)


def _make(found: Base, limits: Limits) -> Group:
    name = f"{_PREFIX}{os.getpid()}-{next(_counter)}"
    parents = [found.memory] if found.kind == "v2" else [found.memory, found.pids]
    group = Group(found.kind, tuple(parent / name for parent in parents))
    memory = limits.memory_mib << 20
    if found.kind == "v2":
        values = {(0, "memory.max"): memory, (0, "memory.swap.max"): 0, (0, "pids.max"): limits.processes}
    else:
        values = {
            (0, "memory.limit_in_bytes"): memory,
            (0, "memory.memsw.limit_in_bytes"): memory,
            (1, "pids.max"): limits.processes,
        }
    try:
        for folder in group.folders:
            folder.mkdir()
        for (index, file), value in values.items():
            path = group.folders[index] / file
            if "sw" not in file or path.exists():  # a kernel without swap has no file to limit it
                path.write_text(str(value))
    except OSError:
        group.remove(0)
        raise
    return group
