"""What other parameters of the reward would change: orders within a reference, and hacks that would be paid."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, NamedTuple

from django.db.models import TextField
from django.db.models.functions import Cast

from agents.reward import Inputs, NotRated, Parameters, reward
from agents.reward.form import is_hack
from stitchweb.datasets.models import Keyring, Record, Reference
from stitchweb.teams.models import Team

SHOWN = 40


class Row(NamedTuple):
    """One candidate. `was`: as stored, `now`: by the parameters of the page; None where it cannot be told."""

    run: int
    candidate: str
    verdict: str
    was: float | None
    now: float | None
    hack: bool


@dataclass(frozen=True)
class Order:
    """The candidates of one reference and target, of which some pairs are ordered otherwise now. `best`: before and now."""

    name: str
    target: str
    rows: list[Row]
    swapped: int
    pairs: int
    best: tuple[Row, Row]

    @property
    def other_best(self) -> bool:
        return self.best[0].now != self.best[1].now


@dataclass(frozen=True)
class Ranking:
    """`changed`: the orders that differ, the most first, at most `SHOWN`; `paid`: hacks that get more than a wrong program."""

    records: int
    rated: int
    orders: int
    changed: list[Order]
    changed_n: int
    other_best: int
    paid: list[tuple[str, Row]]
    paid_n: int
    hacks: int
    mean: float | None
    mean_was: float | None


def ranking(team: Team, by: Parameters) -> Ranking:
    """All stored candidates of a team under these parameters. Two queries, and one more when records changed."""
    stamp = Keyring.objects.filter(team=team).values_list("records_at", flat=True).first()
    groups: dict[tuple[int, str], list[Row]] = defaultdict(list)
    for reference, target, run, candidate, verdict, was, made in _read(team.pk, stamp):
        groups[reference, target].append(Row(run, candidate, verdict, was, _value(made, by), is_hack(made)))
    every = [row for part in groups.values() for row in part]
    changed = [(key, told, best) for key, part in groups.items() if (told := _told(part)) and (best := _other(told))]
    changed.sort(key=lambda entry: (not entry[2][1], -len(entry[1])))
    names = _names(team)
    shown = [_order(names.get(key[0], ""), key[1], told, best[0]) for key, told, best in changed[:SHOWN]]
    floor = -1.0 if by.form == "milestone" else 0.0
    paid = [
        (names.get(key[0], ""), row) for key, part in groups.items() for row in part if row.hack and (row.now or floor) > floor
    ]
    paid.sort(key=lambda entry: -(entry[1].now or 0.0))
    return Ranking(
        records=len(every), rated=sum(row.now is not None for row in every), orders=len(groups), changed=shown,
        changed_n=len(changed), other_best=sum(best[1] for _, _, best in changed), paid=paid[:SHOWN], paid_n=len(paid),
        hacks=sum(row.hack for row in every), mean=_mean(row.now for row in every), mean_was=_mean(row.was for row in every),
    )  # fmt: skip


@lru_cache(maxsize=4)
def _read(team: int, stamp: datetime | None) -> list[tuple[int, str, int, str, str, float | None, Any]]:
    """The team's records as they were at `stamp`, kept in this process: whoever tries parameters asks for the same ones again.

    Ten thousand small texts are read as one large one, and not checked again: they were when they were stored.
    """
    rows = Record.objects.filter(team=team).order_by("pk").annotate(text=Cast("inputs", TextField()))
    some = list(rows.values_list("reference", "target", "run", "candidate", "verdict", "reward", "text"))
    parsed = json.loads(f"[{','.join(row[-1] for row in some)}]")
    return [(*row[:-1], SimpleNamespace(**inputs)) for row, inputs in zip(some, parsed, strict=True)]


def _names(team: Team) -> Mapping[int, str]:
    return dict(Reference.objects.filter(team=team).values_list("pk", "revision__program__name"))


def _high(row: Row) -> float:
    return -(row.now if row.now is not None else -9.0)


def _value(inputs: Inputs, by: Parameters) -> float | None:
    try:
        return reward(inputs, by)
    except (NotRated, ValueError):
        return None


def _told(part: Sequence[Row]) -> list[Row]:
    return [row for row in part if row.was is not None and row.now is not None]


def _other(told: Sequence[Row]) -> tuple[tuple[Row, Row], bool] | None:
    """The best before and now, and whether they differ; None where the order is the same."""
    before, now = sorted(told, key=_was), sorted(told, key=_high)
    same = all(a is b for a, b in zip(before, now, strict=True))
    if same and all((a.was == b.was) == (a.now == b.now) for a, b in pairwise(before)):
        return None
    best = before[0], now[0]
    return best, best[0].now != best[1].now


def _was(row: Row) -> float:
    return -(row.was or 0.0)


def _order(name: str, target: str, told: Sequence[Row], best: tuple[Row, Row]) -> Order:
    """With the pairs that are ordered otherwise, counted over the first two hundred."""
    swapped = pairs = 0
    some = told[:200]
    for at, a in enumerate(some):
        for b in some[at + 1 :]:
            before, now = (a.was or 0) - (b.was or 0), (a.now or 0) - (b.now or 0)
            pairs += 1
            swapped += before * now < 0 or (before == 0) != (now == 0)
    return Order(name, target, sorted(told, key=_high)[:6], swapped, pairs, best)


def _mean(values: Iterable[Any]) -> float | None:
    some = [value for value in values if value is not None]
    return sum(some) / len(some) if some else None
