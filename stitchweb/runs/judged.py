"""The place of a team's judge beside runs: who makes judges says once, when the site starts, how they are found.

Its scores are of no run: they stand in no event and no file, but on a page of their own that a run's page asks for, so that who
may not know them yet gets none. What a run itself heeds is a rating of its candidates, where they are equally fast.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from agents.state import Rating

Cancelled = Callable[[], bool]


class TeamJudge(Protocol):
    """A judge that may at least rank. `name`: with its version."""

    name: str

    def rate(self, run: int, candidates: Sequence[str], cancelled: Cancelled) -> Sequence[Rating]:
        """Its ratings of these candidates of a run; it is asked for those that it lacks, so no request may call this."""
        ...


Finder = Callable[[Collection[int]], Mapping[int, TeamJudge]]
_FINDERS: list[Finder] = []


def find_by(finder: Finder) -> None:
    """Ask `finder` for the judges of teams, by their keys, from now on. Called when the site starts."""
    _FINDERS[:] = [finder]


def judges_of(teams: Collection[int]) -> Mapping[int, TeamJudge]:
    """The judges of those of the teams that have one. One query."""
    return _FINDERS[0](teams) if _FINDERS and teams else {}


def judge_of(team: int) -> TeamJudge | None:
    return judges_of([team]).get(team)


def rated(team: int, run: int, candidates: Sequence[str], cancelled: Cancelled) -> Sequence[Rating]:
    """What the team's judge makes of these candidates; that there is none is told of each."""
    judge = judge_of(team)
    if judge is None:
        return [Rating(candidate=cid, broken="The team has no judge now that may rank.") for cid in candidates]
    return judge.rate(run, candidates, cancelled)
