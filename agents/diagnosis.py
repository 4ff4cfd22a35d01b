"""What a profile says to the loop: what bounds a program, which rows take its time, how near it is to the least there can be.

Small and typed, made once of a ProfileReport, so that the reducer's rules need no blob. `rows` are those of the profile's
tables: operations on a processor, operations and kernels on a GPU, by their keys there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpu_runner.contracts import Contract, ProfileReport

MOST_ROWS = 24
AT_ROOF, BEYOND = 0.95, 1.1  # of the least time; what goes beyond a ceiling shows that it is none for this program


class DiagnosedRow(Contract):
    """A row of the profile. `share`: of the forward, 0..1 (on a GPU of the time of all its kernels and copies)."""

    key: str
    share: float


class Diagnosis(Contract):
    """`reached`: the least time of a forward under the measured ceilings over its own; None where that is unknown, or where
    `bound` (memory or compute) is no ceiling for it because everything stays in a cache."""

    klass: str = ""
    confidence: str = ""
    sentence: str = ""
    bound: str = ""
    reached: float | None = None
    rows: tuple[DiagnosedRow, ...] = ()
    suggestions: tuple[str, ...] = ()

    @property
    def tells(self) -> bool:
        """Whether it names what bounds the program."""
        return self.klass not in ("", "insufficient")

    @property
    def at_roofline(self) -> bool:
        """Whether no program that computes the same could be much faster here."""
        return self.reached is not None and AT_ROOF <= self.reached <= BEYOND

    def share(self, keys: Iterable[str]) -> float:
        """The share of the forward in these rows, 0..1."""
        wanted = set(keys)
        return min(1.0, sum(row.share for row in self.rows if row.key in wanted))


def diagnosis_of(report: ProfileReport, call_ms: float | None = None) -> Diagnosis | None:
    """The diagnosis in a report; None where it holds no verdict. `call_ms`: the time of a call as the hands took it, which the
    least time is held against; without it the profiled process' own word counts."""
    summary = report.summary or {}
    verdict = summary.get("verdict")
    if report.status == "unavailable" or not isinstance(verdict, Mapping):
        return None
    roof = summary.get("roof")
    roof = roof if isinstance(roof, Mapping) and not roof.get("cached") else {}
    reached, least = roof.get("reached_pct"), roof.get("least_ns")
    if call_ms and isinstance(least, int | float):
        reached = 100.0 * least / (1e6 * call_ms)
    advice = [str(item.get("title", ""))[:200] for item in summary.get("advice") or () if isinstance(item, Mapping)]
    return Diagnosis(
        klass=str(verdict.get("class", ""))[:60],
        confidence=str(verdict.get("confidence", ""))[:20],
        sentence=str(verdict.get("sentence", ""))[:600],
        bound=str(roof.get("bound", ""))[:20],
        reached=reached / 100.0 if isinstance(reached, int | float) else None,
        rows=tuple(_rows(summary)),
        suggestions=tuple(advice[:3]),
    )


def _rows(summary: Mapping[str, Any]) -> list[DiagnosedRow]:
    """The largest rows, each key once: operations before the kernels that they launched."""
    kernels, ops = summary.get("kernels") or (), summary.get("ops") or ()
    if summary.get("gpu"):
        whole = sum(op["gpu_ns"] for op in ops) or sum(kernel["total_ns"] for kernel in kernels) or 1
        shares = [(op["name"], op["gpu_ns"] / whole) for op in ops]
        shares += [(kernel["key"], kernel["total_ns"] / whole) for kernel in kernels]
    else:
        shares = [(kernel["key"], (kernel.get("share_pct") or 0.0) / 100.0) for kernel in kernels]
    found: dict[str, float] = {}
    for name, share in sorted(shares, key=lambda pair: -pair[1]):
        found.setdefault(str(name)[:120], min(1.0, max(0.0, share)))
    return [DiagnosedRow(key=name, share=round(share, 5)) for name, share in list(found.items())[:MOST_ROWS]]
