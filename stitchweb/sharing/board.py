"""Leaderboards: what runs came to, per reference and target, never across protocols, devices, modes or precisions.

An ended run is one attempt at its reference. It counts as solved when its best candidate is verified and was confirmed by the
full protocol (`Run.verdict` is "verified"); everything else that ended counts against it: without a gain, refused, degenerate,
failed. Runs that people cancelled are no attempts.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Case, Count, F, FloatField, Value, When, Window
from django.db.models.functions import RowNumber

from gpu_runner.contracts import Interval
from stitchweb.runs.models import ENDED, RunQuerySet
from stitchweb.sharing.ground import device_name

FAST_P = (1.0, 1.2, 1.5, 2.0, 4.0)
MOST = 2000  # attempts that one board reads

Ground = tuple[str, str, str, str, str, bool]  # target, protocol, device, mode, precision, synthetic


@dataclass(frozen=True)
class Attempt:
    """One engineer's best run of one reference on one ground, or one run. `runs`: how many there were to choose from."""

    run: int
    reference: str
    program: int
    name: str
    engineer: str
    ground: Ground
    verdict: str
    speed: str
    over_eager: Interval | None
    over_compile: float | None
    degenerate: bool
    runs: int = 1
    at: Any = None

    @property
    def solved(self) -> bool:
        return self.verdict == "verified" and self.over_eager is not None

    @property
    def faster(self) -> bool:
        return self.solved and self.speed == "faster"


@dataclass(frozen=True)
class Score:
    """Of one engineer over its references. `of`: how many it attempted; every share is of these.

    shares     (p, share whose lower 95 % bound is above p, share whose ratio is above p): fast_p over eager, strict
    solved_mean  geometric mean of the ratios over eager of the solved; None without one
    all_mean     the same over all, where what is not solved counts as 1
    compile_mean the same over the best torch.compile, of the solved that have that number (`compile_of`)
    """

    engineer: str
    of: int
    runs: int
    solved: int
    degenerate: int
    shares: tuple[tuple[float, float, float], ...]
    lows: tuple[float, ...]
    solved_mean: float | None
    all_mean: float | None
    compile_mean: float | None
    compile_of: int
    ends: tuple[tuple[str, int], ...]


class Grounded:
    """Names for what a `ground` holds: a tuple that begins with target, protocol, device, mode and precision."""

    ground: tuple[Any, ...]

    @property
    def target(self) -> str:
        return self.ground[0]

    @property
    def protocol(self) -> str:
        return self.ground[1]

    @property
    def device(self) -> str:
        return self.ground[2]

    @property
    def mode(self) -> str:
        return self.ground[3]

    @property
    def precision(self) -> str:
        return self.ground[4]


@dataclass
class Board(Grounded):
    """What may be compared: one ground. `leaders`: of each reference the best attempt, the largest gain first."""

    ground: Ground
    attempts: list[Attempt] = field(default_factory=list)

    @property
    def synthetic(self) -> bool:
        return self.ground[5]

    @property
    def references(self) -> int:
        return len({a.reference for a in self.attempts})

    @property
    def scores(self) -> list[Score]:
        by_engineer: dict[str, list[Attempt]] = {}
        for attempt in self.attempts:
            by_engineer.setdefault(attempt.engineer, []).append(attempt)
        found = [score_of(engineer, rows) for engineer, rows in by_engineer.items()]
        return sorted(found, key=lambda s: (-s.of, -(s.all_mean or 0), s.engineer))

    @property
    def leaders(self) -> list[Attempt]:
        best: dict[str, Attempt] = {}
        for attempt in self.attempts:
            kept = best.get(attempt.reference)
            if kept is None or _height(attempt) > _height(kept):
                best[attempt.reference] = attempt
        return sorted(best.values(), key=lambda a: (-_height(a), a.name))


def _height(attempt: Attempt) -> float:
    return attempt.over_eager.value if attempt.solved and attempt.over_eager else 0.0


def geomean(values: Sequence[float]) -> float | None:
    """exp of the mean of logarithms, which cannot overflow; None of nothing."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def score_of(engineer: str, rows: Sequence[Attempt]) -> Score:
    """The metrics over attempts of one ground, one per reference."""
    solved = [a for a in rows if a.solved]
    ratios = [a.over_eager.value for a in solved if a.over_eager]
    lows = [a.over_eager.low for a in solved if a.over_eager]
    compiled = [a.over_compile for a in solved if a.over_compile]
    of = len(rows)
    return Score(
        engineer=engineer, of=of, runs=sum(a.runs for a in rows), solved=len(solved),
        degenerate=sum(a.degenerate for a in rows),
        shares=tuple((p, sum(low > p for low in lows) / of, sum(r > p for r in ratios) / of) for p in FAST_P) if of else (),
        lows=tuple(lows), solved_mean=geomean(ratios), all_mean=geomean([*ratios, *[1.0] * (of - len(ratios))]),
        compile_mean=geomean(compiled), compile_of=len(compiled),
        ends=tuple(sorted(Counter(a.verdict for a in rows if not a.solved).items())),
    )  # fmt: skip


def attempts_of(runs: RunQuerySet, best: bool = True) -> list[Attempt]:
    """The attempts among these runs, with `best` the one of each engineer, reference, target and protocol. Two queries."""
    counted = runs.filter(status__in=ENDED).exclude(verdict__in=["", "cancelled"])
    height = Case(When(verdict="verified", then=F("speedup")), default=Value(None), output_field=FloatField())
    parts = [F("revision__sha256"), F("target"), F("protocol"), F("engineer"), F("synthetic")]
    place = Window(RowNumber(), partition_by=parts, order_by=[height.desc(nulls_last=True), F("pk").desc()])
    chosen = counted.order_by().annotate(place=place, among=Window(Count("pk"), partition_by=parts))
    kept = dict((chosen.filter(place=1) if best else chosen).values_list("pk", "among")[:MOST])
    rows = runs.model.objects.filter(pk__in=list(kept)).order_by("pk").values(
        "pk", "revision__sha256", "revision__program", "revision__program__name", "engineer", "target", "protocol", "verdict",
        "speed", "speedup", "speedup_low", "speedup_high", "speedup_compile", "synthetic", "ended_at",
        "stored__result__device", "stored__result__mode", "stored__result__precision", "stored__result__labels",
    )  # fmt: skip
    return [_attempt(row, kept[row["pk"]] if best else 1) for row in rows]


def _attempt(row: dict[str, Any], runs: int) -> Attempt:
    device = row["stored__result__device"]
    labels = row["stored__result__labels"] or ()
    over = None
    if row["speedup"] is not None and row["speed"] != "not-claimed":
        low, high = row["speedup_low"], row["speedup_high"]
        over = Interval(
            value=row["speedup"], low=row["speedup"] if low is None else low, high=row["speedup"] if high is None else high
        )
    ground: Ground = (
        row["target"], row["protocol"], device_name(device if isinstance(device, dict) else None),
        str(row["stored__result__mode"] or ""), str(row["stored__result__precision"] or ""), row["synthetic"],
    )  # fmt: skip
    return Attempt(
        run=row["pk"], reference=row["revision__sha256"], program=row["revision__program"], name=row["revision__program__name"],
        engineer=row["engineer"], ground=ground, verdict=row["verdict"], speed=row["speed"], over_eager=over,
        over_compile=row["speedup_compile"], degenerate="degenerate" in labels, runs=runs, at=row["ended_at"],
    )  # fmt: skip


def boards_of(attempts: Iterable[Attempt]) -> list[Board]:
    """Grouped by ground, the one with the most attempts first.

    An attempt that came to no device (refused, failed before it was measured) counts on every ground of its target and
    protocol, so that nobody looks better for having failed early; where there is none, it stands on one without a device.
    """
    rows = list(attempts)
    boards: dict[Ground, Board] = {}
    for attempt in rows:
        if attempt.ground[2]:
            boards.setdefault(attempt.ground, Board(attempt.ground)).attempts.append(attempt)
    for attempt in rows:
        if attempt.ground[2]:
            continue
        target, protocol, *_, synthetic = attempt.ground
        near = [b for g, b in boards.items() if g[2] and (g[0], g[1], g[5]) == (target, protocol, synthetic)]
        for board in near or [boards.setdefault(attempt.ground, Board(attempt.ground))]:
            board.attempts.append(attempt)
    return sorted(boards.values(), key=lambda b: (b.synthetic, -len(b.attempts), b.ground))
