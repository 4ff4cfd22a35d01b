"""Invented profiles: made-up calls of a forward, through the runner's own summary and rules. Nothing here was measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gpu_runner.contracts import DeviceInfo
from gpu_runner.profile.cpu import Work, summarise_host
from gpu_runner.profile.reading import finished
from gpu_runner.profile.rows import ITERATION, Row

ITERATIONS = 5
_GAP_NS = 1_500  # of Python and dispatch before each call


@dataclass(frozen=True)
class Call:
    """One operation with what it calls. Names that begin with `own:` are the candidate's own functions."""

    name: str
    ns: int
    below: tuple[Call, ...] = ()


def _rows(calls: Sequence[Call], at: int) -> Iterator[Row]:
    for call in calls:
        at += _GAP_NS
        yield Row("cpu_op", call.name, at, call.ns, "1")
        yield from _rows(call.below, at)
        at += call.ns


def summary(
    role: str, forward: Sequence[Call], device: DeviceInfo, work: Work, torch: str = "2.13.0"
) -> tuple[dict[str, Any], float | None]:
    """(`stitchweb.profile/1` with its verdicts, share of the time in own functions) of a forward that makes these calls."""
    each = sum(call.ns + _GAP_NS for call in forward) + _GAP_NS
    rows: list[Row] = []
    for number in range(ITERATIONS):
        start = number * (each + 50_000)
        rows += [Row("user_annotation", ITERATION, start, each, "1"), *_rows(forward, start)]
    usage = {"wall_ns": ITERATIONS * each, "cpu_ns": round(ITERATIONS * each * 1.86), "threads": 2}
    answer = {"usage": usage, "iterations": ITERATIONS, "torch": torch}
    told, coverage = summarise_host(role, answer, rows, device, "", work)
    return finished(told, coverage), coverage if role == "candidate" else None
