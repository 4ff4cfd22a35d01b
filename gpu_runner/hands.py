"""The one door to the hands: give a task, get a report.

`LocalHands` works in this process tree; a fleet reaches the same code through `gpu_runner.worker`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from gpu_runner.contracts import Progress, Report, Task

ProgressSink = Callable[[Progress], None]


class HandsError(Exception):
    """Not the program's fault: no sandbox, no compiler, a machine that failed. The message is a sentence with a way out."""


class Cancelled(Exception):
    """Raised by a progress sink, or by the hands when `cancelled()` turned true; everything started has been ended."""


class Hands(Protocol):
    """`perform` answers an analyse, build, check, time or profile task with its report.

    Whatever the program does wrong is in the report; only the hands' own troubles raise (`HandsError`, `Cancelled`).
    """

    def perform(self, task: Task, progress: ProgressSink = ..., cancelled: Callable[[], bool] = ...) -> Report: ...
