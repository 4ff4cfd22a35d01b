"""The frame of one task: where it runs, until when, who listens."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from gpu_runner.contracts import Limits, Mode, Precision, Progress
from gpu_runner.hands import ProgressSink

_MOST_MEMORY = 0.75  # of the machine's, for one sandbox
_HOLD_S = 24 * 3600.0  # a kept process is bounded by the time of each request, not by its own age


@dataclass
class Job:
    """One task's frame: where it runs, until when, who listens."""

    device: str  # "cpu" or "cuda"
    limits: Limits
    mode: Mode
    precision: Precision
    progress: ProgressSink
    cancelled: Callable[[], bool]
    devices: tuple[str, ...] = ()
    deadline: float = field(init=False)
    doing: str = ""  # what was said last

    def __post_init__(self) -> None:
        self.limits = self.limits.model_copy(update={"memory_mib": min(self.limits.memory_mib, most_memory_mib())})
        self.deadline = time.monotonic() + self.limits.wall_s

    @property
    def held_limits(self) -> Limits:
        """The limits a process is started with: all jobs of equal limits share waiting processes."""
        return held_limits(self.limits)

    def stage(self, text: str) -> None:
        """Say in a short sentence what is being done."""
        self.doing = text
        self.progress(Progress(kind="stage", payload={"text": text}))

    def left(self) -> float:
        """Seconds until the task's wall clock runs out; never negative."""
        return max(0.0, self.deadline - time.monotonic())


def most_memory_mib() -> int:
    """What a sandbox may have on this machine at most."""
    return int(_MOST_MEMORY * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) >> 20


def held_limits(limits: Limits) -> Limits:
    """Limits of a process that may serve several tasks."""
    return limits.model_copy(update={"wall_s": _HOLD_S})
