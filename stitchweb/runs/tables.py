"""Rows of runs for lists, and fast_p over a suite's programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.utils.safestring import SafeString

from gpu_runner.contracts import Interval
from stitchweb.runs.charts import LogAxis, fast_p_curve, interval, interval_axis
from stitchweb.runs.models import Run

FAST_P = (1.0, 1.5, 2.0)


@dataclass(frozen=True)
class RunRow:
    """A run with the speedup it may show: none unless it is verified and a speed was claimed."""

    run: Run
    interval: Interval | None
    mark: SafeString | str
    coverage: float | None

    @property
    def program_id(self) -> int:
        return int(self.run.revision.program_id)

    @property
    def faster(self) -> bool:
        return self.run.speed == "faster"

    @property
    def word(self) -> str:
        return self.run.verdict or self.run.shown_status


def _interval(run: Run) -> Interval | None:
    if run.speedup is None or run.speed == "not-claimed" or (run.verdict and run.verdict != "verified"):
        return None
    low, high = run.speedup_low, run.speedup_high
    return Interval(value=run.speedup, low=run.speedup if low is None else low, high=run.speedup if high is None else high)


def _axis(intervals: Iterable[Interval | None]) -> LogAxis:
    return LogAxis.around([1.0, *(v for i in intervals if i for v in (i.low, i.high))], margin=1.06, least=1.5)


def rows_of(runs: Iterable[Run]) -> list[RunRow]:
    """Rows with marks on one common axis, in the order of the runs."""
    pairs = [(run, _interval(run)) for run in runs]
    axis = _axis(i for _, i in pairs)
    return [
        RunRow(run, found, interval(found, axis, mute=run.speed != "faster") if found else "", run.coverage)
        for run, found in pairs
    ]


def scale_of(rows: Sequence[RunRow]) -> SafeString | str:
    """The axis under the marks of these rows."""
    intervals = [row.interval for row in rows]
    return interval_axis(_axis(intervals)) if any(intervals) else ""


@dataclass(frozen=True)
class FastP:
    """One target and protocol of a suite: shares of all `of` programs verified and faster than p, over eager."""

    target: str
    protocol: str
    of: int
    ended: int
    verified: int
    shares: list[tuple[float, float]]
    geomean: float | None
    curve: SafeString


def fast_p(rows: Sequence[RunRow], of: int) -> list[FastP]:
    """Per target and protocol. A program counts with its interval's lower bound; one without a claim is 1× in the mean."""
    groups: dict[tuple[str, str], list[RunRow]] = {}
    for row in rows:
        groups.setdefault((row.run.target, row.run.protocol), []).append(row)
    answers = []
    for (target, protocol), members in sorted(groups.items()):
        lows = [r.interval.low for r in members if r.interval and r.faster]
        product = 1.0
        for row in members:
            product *= row.interval.value if row.interval and row.faster else 1.0
        shares = [(p, sum(low > p for low in lows) / of) for p in FAST_P] if of else []
        said = ", ".join(f"{100 * share:.0f} percent above {p:g} times" for p, share in shares)
        answers.append(
            FastP(
                target=target,
                protocol=protocol,
                of=of,
                ended=sum(r.run.ended for r in members),
                verified=sum(r.run.verdict == "verified" for r in members),
                shares=shares,
                geomean=product ** (1 / of) if of else None,
                curve=fast_p_curve(lows, of, f"fast p curve for {target}: {said}"),
            )
        )
    return answers
