"""The operations that enqueued the GPU's work, and the copies and calls of the host: plain tables, the largest first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stitchweb.core.numbers import byte_rate, duration, grouped, size
from stitchweb.runs.pictures.part import anchor, number, per_cent, positive, rows_of

MAX_ROWS = 40
_COPIES = {
    "H2D": "host to device", "D2H": "device to host", "D2D": "device to device", "H2H": "host to host", "P2P": "device to other device",
    "memset": "memset",
}  # fmt: skip


@dataclass(frozen=True)
class PlainTable:
    """`id` is what evidence links to. The first column is a name, the others are numbers."""

    id: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def _items(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)][:MAX_ROWS] if isinstance(value, list) else []


def _ms(value: Any, count: float = 1.0) -> float | None:
    ns = number(value)
    return None if ns is None else ns / count / 1e6


def _each(value: Any, count: float) -> str:
    found = number(value)
    if found is None:
        return "–"
    return grouped(found / count) if found / count == round(found / count) else f"{found / count:.1f}"


def plain_tables(summary: Mapping[str, Any], *, prefix: str) -> list[PlainTable]:
    """Operations, copies and calls of an average iteration, each where the summary has any."""
    target = summary.get("target")
    count = max(1.0, positive(target.get("iterations")) if isinstance(target, Mapping) else 0.0)
    ops, copies, calls = (_items(summary.get(key)) for key in ("ops", "copies", "api"))
    whole = sum(positive(op.get("gpu_ns")) for op in ops)
    tables = [
        PlainTable(
            anchor(prefix, "ops"), "GPU time by operation", ("Operation", "GPU rows", "GPU time", "Share", "Copied"),
            rows_of(
                (
                    str(op.get("name") or "unnamed").removeprefix("aten::"), _each(op.get("gpu_rows"), count),
                    duration(_ms(op.get("gpu_ns"), count)), per_cent(100 * positive(op.get("gpu_ns")) / whole if whole else None),
                    size(_over(op.get("copy_bytes"), count)),
                )
                for op in ops
            ),
        ),
        PlainTable(
            anchor(prefix, "copies"), "Copies", ("Copy", "Count", "Bytes", "Time", "Alone", "Rate", "Pageable"),
            rows_of(
                (
                    _COPIES.get(str(c.get("kind")), str(c.get("kind"))), _each(c.get("count"), count), size(_over(c.get("bytes"), count)),
                    duration(_ms(c.get("time_ns"), count)), duration(_ms(c.get("exposed_ns"), count)), byte_rate(number(c.get("rate_Bps"))),
                    _each(c.get("pageable_count"), count),
                )
                for c in copies
            ),
        ),
        PlainTable(
            anchor(prefix, "calls"), "Calls of the host", ("Call", "Count", "Time", "Median", "Waits"),
            rows_of(
                (
                    str(c.get("name") or "unnamed"), _each(c.get("count"), count), duration(_ms(c.get("total_ns"), count)),
                    duration(_ms(c.get("median_ns"))), "yes" if c.get("blocking") else "no",
                )
                for c in calls
            ),
        ),
    ]  # fmt: skip
    return [table for table in tables if table.rows]


def _over(value: Any, count: float) -> float | None:
    found = number(value)
    return None if found is None else found / count
