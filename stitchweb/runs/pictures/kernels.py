"""The kernel table: rows of one summary or of two side by side, sorted by link, full names on demand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stitchweb.core.numbers import duration, grouped, size
from stitchweb.runs.pictures.part import anchor, number, per_cent, positive

MAX_ROWS = 40
ORIGINS = {"own": "own", "torch": "PyTorch", "library": "library", "compiled": "compiler", "unknown": ""}
CHANGES = {"kept": "", "gone": "gone", "new": "new"}
_COLUMNS: tuple[tuple[str, str, bool], ...] = (  # (sort key, heading, whether it is a number)
    ("name", "Kernel", False),
    ("time", "Time", True),
    ("share", "Share", True),
    ("calls", "Calls", True),
    ("median", "Median", True),
    ("bytes", "Device memory", True),
    ("limit", "Bound by", False),
)


@dataclass(frozen=True)
class Heading:
    """`sort` is ascending, descending or none; `href` sorts by this column, or turns it round. `id` keeps its place."""

    id: str
    label: str
    href: str
    sort: str
    is_number: bool


@dataclass(frozen=True)
class KernelRow:
    """`id` is what evidence links to; `cells` are in the order of the headings after the name."""

    id: str
    name: str
    full_name: str
    origin: str
    change: str
    cells: tuple[str, ...]
    share: float | None


@dataclass(frozen=True)
class KernelTable:
    id: str
    headings: tuple[Heading, ...]
    rows: tuple[KernelRow, ...]
    left_out: int


def _sort_value(kernel: Mapping[str, Any], by: str) -> Any:
    if by == "name":
        return str(kernel.get("short_name", "")).lower()
    if by == "limit":
        return _limit(kernel) or "~"
    counters = kernel.get("counters") if isinstance(kernel.get("counters"), Mapping) else {}
    value = {
        "calls": kernel.get("count"), "time": kernel.get("total_ns"), "median": kernel.get("median_ns"), "share": kernel.get("share_pct"),
        "bytes": (counters or {}).get("dram_bytes"),
    }.get(by)  # fmt: skip
    return positive(value)


def kernel_table(
    summary: Mapping[str, Any], *, prefix: str, sort: str = "-time", link: Callable[[str], str] = lambda sort: f"?sort={sort}",
    changes: Sequence[Mapping[str, Any]] = (),
) -> KernelTable:  # fmt: skip
    """`sort`: a column, with "-" before it from high to low; anything else is by time. `changes`: rows of `compare(…)["kernels"]`."""
    column, falling = sort.removeprefix("-"), sort.startswith("-")
    if column not in {key for key, _, _ in _COLUMNS}:
        column, falling = "time", True
    kernels = summary.get("kernels")
    found = [k for k in kernels if isinstance(k, Mapping)] if isinstance(kernels, list) else []
    found.sort(key=lambda k: positive(k.get("total_ns")), reverse=True)
    found.sort(key=lambda k: _sort_value(k, column), reverse=falling)
    target = summary.get("target")
    count = max(1.0, positive(target.get("iterations")) if isinstance(target, Mapping) else 0.0)
    change_of = {str(row.get("key")): str(row.get("change")) for row in changes}
    headings = tuple(
        Heading(
            anchor(prefix, f"sort {key}"),
            label,
            link(_next(key, is_number, column, falling)),
            _order(key, column, falling),
            is_number,
        )
        for key, label, is_number in _COLUMNS
    )
    rows = tuple(_row(k, count, prefix, change_of.get(str(k.get("key")), "kept")) for k in found[:MAX_ROWS])
    return KernelTable(anchor(prefix, "kernels"), headings, rows, max(0, len(found) - MAX_ROWS))


def _limit(kernel: Mapping[str, Any]) -> str:
    """What bounds the kernel: memory, compute, latency and why. Empty where it was not judged."""
    judged = kernel.get("verdict")
    return str(judged.get("class") or "").removesuffix("-bound") if isinstance(judged, Mapping) else ""


def _next(key: str, is_number: bool, column: str, falling: bool) -> str:
    """What a heading's link sorts by: the other way round where it is the column already, else large numbers or A first."""
    down = not falling if key == column else is_number
    return f"-{key}" if down else key


def _order(key: str, column: str, falling: bool) -> str:
    return "none" if key != column else "descending" if falling else "ascending"


def _row(kernel: Mapping[str, Any], count: float, prefix: str, change: str) -> KernelRow:
    counters = kernel.get("counters") if isinstance(kernel.get("counters"), Mapping) else {}
    calls, total, median = number(kernel.get("count")), number(kernel.get("total_ns")), number(kernel.get("median_ns"))
    share = number(kernel.get("share_pct"))
    each = None if calls is None else calls / count
    moved = number((counters or {}).get("dram_bytes"))
    name = str(kernel.get("short_name") or kernel.get("name") or kernel.get("key") or "unnamed")
    full = str(kernel.get("name") or name)
    return KernelRow(
        anchor(prefix, f"kernels:{kernel.get('key')}"), name, full if full != name else "",
        ORIGINS.get(str(kernel.get("origin")), ""), CHANGES.get(change, ""),
        (
            duration(None if total is None else total / count / 1e6), per_cent(share),
            "–" if each is None else grouped(each) if each == round(each) else f"{each:.1f}",
            duration(None if median is None else median / 1e6), size(moved), _limit(kernel) or "–",
        ),
        None if share is None else min(max(share / 100, 0.0), 1.0),
    )  # fmt: skip
