"""What every benchmark prints: a table, and under it when, where and with what it was measured."""

from __future__ import annotations

import math
import os
import platform
import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def processor() -> str:
    """The processor's own name and how many of its cores this process may use."""
    name = platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass  # not Linux, or a processor without a name: the architecture has to do
    return f"{name}, {len(os.sched_getaffinity(0))} cores usable"


def conditions(*packages: str) -> str:
    """One line: date, device, Python, the versions of the packages named, and the command."""
    versions = [f"Python {platform.python_version()}"]
    for package in packages:
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            versions.append(f"{package} absent")
    command = shlex.join(["python", os.path.relpath(sys.argv[0], ROOT), *sys.argv[1:]])
    system = f"{platform.system()} {platform.release()}"
    return "; ".join([f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC", processor(), system, ", ".join(versions), f"`{command}`"])


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table, columns padded so that it reads as plain text; all columns but the first are aligned right."""
    cells = [[str(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]

    def line(row: Sequence[str]) -> str:
        padded = [
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return f"| {' | '.join(padded)} |"

    rule = [("-" * width) if column == 0 else ("-" * (width - 1) + ":") for column, width in enumerate(widths)]
    return "\n".join([line(cells[0]), line(rule), *(line(row) for row in cells[1:])])


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of all do not exceed. Raises ValueError for no values."""
    if not values:
        raise ValueError("no values to take a quantile of")
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def show(title: str, head: Sequence[str], rows: Sequence[Sequence[object]], *packages: str) -> None:
    """Print the title, the table and the conditions."""
    print(f"\n## {title}\n\n{table(head, rows)}\n\n{conditions(*packages)}", flush=True)
