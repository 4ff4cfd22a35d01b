"""The place of a judge: a model that scores candidates by the rubric. A team has none until it made one that may score.

Who makes judges says once, when the site starts, how a team's is found (`find_by`). Its scores stand on a page after the
reader's own label only, and queues can be filled by where it is at odds with itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from stitchweb.teams.models import Team, User


@dataclass(frozen=True)
class JudgeScore:
    """What a judge says of one content. `levels` by dimension, None for "cannot tell"; `apart`: levels between the highest and
    the lowest of its answers in the dimension where they differ most, 0 to 4; `doubt`: how unsure it is, 0 to 1."""

    levels: Mapping[str, int | None]
    hack_level: str
    reason: str
    apart: int
    doubt: float = 0.0


class Judge(Protocol):
    """`name`: with its version, as people read it beside the scores; `tells`: whether its scores may be shown at all: those of
    one that may only rank are not."""

    name: str
    tells: bool

    def scores(self, team: Team, contents: Collection[str]) -> Mapping[str, JudgeScore]:
        """Its scores of those of these contents (`Item.sha256`) that it has scored. Reads what is stored; it asks no model."""
        ...


Finder = Callable[[Team], Judge | None]
Read = Callable[[User, str], bool]
_FINDERS: list[Finder] = []
_READ: list[Read] = []
_JUDGE: list[Judge] = []


def find_by(finder: Finder, read: Read) -> None:
    """Ask `finder` for a team's judge, and `read` whether a person was shown a judge's scores of a content, from now on. Called
    when the site starts."""
    _FINDERS[:], _READ[:] = [finder], [read]


def was_read(user: User, sha256: str) -> bool:
    """Whether the person has read what a judge says of this content, wherever that stood."""
    return any(read(user, sha256) for read in _READ)


def use(judge: Judge | None) -> None:
    """Heed this judge for every team, whatever is found; None: none."""
    _JUDGE[:] = [judge] if judge else []


def judge(team: Team) -> Judge | None:
    """The team's judge; None where it has none that may score."""
    if _JUDGE:
        return _JUDGE[0]
    return next((found for finder in _FINDERS if (found := finder(team))), None)


def score_of(team: Team, sha256: str) -> tuple[str, JudgeScore] | None:
    """Name and score of the judge on one content; None where there is no judge whose scores may be shown, or it has not scored
    it."""
    now = judge(team)
    found = now.scores(team, [sha256]).get(sha256) if now and now.tells else None
    return (now.name, found) if now and found else None
