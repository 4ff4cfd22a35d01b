"""The rows that every system-level adapter gives: what the GPU did, what the host called, and what it was inside of.

Times are integer nanoseconds on one clock of the file's own.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gpu_runner.profile.rows import Row

COPY_KINDS = ("H2D", "D2H", "D2D", "H2H", "P2P", "UVM_H2D", "UVM_D2H", "UVM_D2D")


class Launch(NamedTuple):
    """How a kernel was launched. None where the tool does not say."""

    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    regs: int | None = None
    smem_static: int | None = None
    smem_dynamic: int | None = None
    occupancy_pct: float | None = None


@dataclass(slots=True)
class GpuRow:
    """One interval of a GPU. `key` joins it to the call that enqueued it; `copy` is one of COPY_KINDS."""

    kind: str  # kernel | copy | memset
    name: str
    start: int
    end: int
    device: int = 0
    stream: int = 0
    key: Hashable = None
    bytes: int | None = None
    copy: str = ""
    pageable: bool = False
    launch: Launch | None = None


@dataclass(slots=True)
class Call:
    """One call of the runtime or the driver on the host."""

    name: str
    start: int
    end: int
    thread: str
    key: Hashable = None


@dataclass
class Trace:
    """A report of one process. `ranges` are its measured iterations, in order; without them the whole report is the range."""

    tool: str  # nsys | torch_profiler
    tool_version: str = ""
    format_version: str = ""
    gpu: list[GpuRow] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    host: list[Row] = field(default_factory=list)
    ranges: list[tuple[int, int]] = field(default_factory=list)
    basis: str = "first_to_last"
    devices: dict[int, dict[str, Any]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    lost: bool = False  # the tool says that events are missing
    missing: str = ""  # why there are no kernels although there should be
