"""What other parameters of the reward would change: orders within a reference, and hacks that would be paid."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.reward import Inputs, NotRated, Parameters, reward
from agents.reward.form import is_hack
from stitchweb.datasets.models import Record, Reference
from stitchweb.teams.models import Team

SHOWN = 40


@dataclass(frozen=True)
class Row:
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
        return self.best[0] is not self.best[1]


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
    """All stored candidates of a team under these parameters. Two queries; a tenth of a second at ten thousand."""
    rows = Record.objects.filter(team=team).order_by("pk")
    some = rows.values_list("reference", "target", "run", "candidate", "verdict", "inputs", "reward")
    groups: dict[tuple[int, str], list[Row]] = defaultdict(list)
    for reference, target, run, candidate, verdict, inputs, was in some.iterator(chunk_size=4000):
        made = Inputs.model_construct(**inputs)
        groups[reference, target].append(Row(run, candidate, verdict, was, _value(made, by), is_hack(made)))
    every = [row for part in groups.values() for row in part]
    orders = [(key, order) for key, part in groups.items() if (order := _order(part))]
    orders.sort(key=lambda entry: (not entry[1][2], -entry[1][0]))
    names = _names(team)
    shown = [
        Order(names.get(key[0], ""), key[1], sorted(part[3], key=_high)[:6], part[0], part[1], part[4])
        for key, part in orders[:SHOWN]
    ]
    floor = -1.0 if by.form == "milestone" else 0.0
    paid = [
        (names.get(key[0], ""), row) for key, part in groups.items() for row in part if row.hack and (row.now or floor) > floor
    ]
    paid.sort(key=lambda entry: -(entry[1].now or 0.0))
    return Ranking(
        records=len(every), rated=sum(row.now is not None for row in every), orders=len(groups), changed=shown,
        changed_n=len(orders), other_best=sum(part[2] for _, part in orders), paid=paid[:SHOWN], paid_n=len(paid),
        hacks=sum(row.hack for row in every), mean=_mean(row.now for row in every), mean_was=_mean(row.was for row in every),
    )  # fmt: skip


def _names(team: Team) -> Mapping[int, str]:
    return dict(Reference.objects.filter(team=team).values_list("pk", "revision__program__name"))


def _high(row: Row) -> float:
    return -(row.now if row.now is not None else -9.0)


def _value(inputs: Inputs, by: Parameters) -> float | None:
    try:
        return reward(inputs, by)
    except (NotRated, ValueError):
        return None


def _order(part: Sequence[Row]) -> tuple[int, int, bool, list[Row], tuple[Row, Row]] | None:
    """How many pairs are swapped, of how many; whether the best is another; None where nothing is."""
    told = [row for row in part if row.was is not None and row.now is not None][:200]
    swapped = pairs = 0
    for at, a in enumerate(told):
        for b in told[at + 1 :]:
            before, now = (a.was or 0) - (b.was or 0), (a.now or 0) - (b.now or 0)
            pairs += 1
            swapped += before * now < 0 or (before == 0) != (now == 0)
    if not swapped:
        return None
    best = max(told, key=lambda row: row.was or 0.0), max(told, key=lambda row: row.now or 0.0)
    return swapped, pairs, best[0] is not best[1] and best[0].now != best[1].now, list(told), best


def _mean(values: Iterable[Any]) -> float | None:
    some = [value for value in values if value is not None]
    return sum(some) / len(some) if some else None
