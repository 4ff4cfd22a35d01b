"""The place of a judge: a model that scores candidates by the rubric. None comes with the site, and no page pretends one.

Whoever makes one calls `use` once, when the site starts. Its scores stand on a page after the reader's own label only, and
queues can be filled by where it is at odds with itself.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from stitchweb.teams.models import Team


@dataclass(frozen=True)
class JudgeScore:
    """What a judge says of one content. `levels` by dimension, None for "cannot tell"; `apart`: levels between the highest and
    the lowest of its answers in the dimension where they differ most, 0 to 4."""

    levels: Mapping[str, int | None]
    hack_level: str
    reason: str
    apart: int


class Judge(Protocol):
    """`name`: with its version, as people read it beside the scores."""

    name: str

    def scores(self, team: Team, contents: Collection[str]) -> Mapping[str, JudgeScore]:
        """Its scores of those of these contents (`Item.sha256`) that it has scored. Reads what is stored; it asks no model."""
        ...


_JUDGE: list[Judge] = []


def use(judge: Judge | None) -> None:
    """Heed this judge from now on; None: none."""
    _JUDGE[:] = [judge] if judge else []


def judge() -> Judge | None:
    return _JUDGE[0] if _JUDGE else None


def score_of(team: Team, sha256: str) -> tuple[str, JudgeScore] | None:
    """Name and score of the judge on one content; None where there is no judge, or it has not scored it."""
    now = judge()
    found = now.scores(team, [sha256]).get(sha256) if now else None
    return (now.name, found) if now and found else None
