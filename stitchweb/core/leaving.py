"""What has to go with a team or a person beyond the rows that point to them: files, contents, names in histories.

An app says it once, when the site starts; the services that delete ask here, so none can be forgotten.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

After = Callable[[], None]


@dataclass(frozen=True)
class Parting:
    """`team(team)` is called before its rows go and returns what is to be done after, in the same transaction.
    `person(user)` is called before the person's row goes."""

    team: Callable[[Any], After] = lambda team: lambda: None
    person: Callable[[Any], None] = lambda user: None


_PARTINGS: list[Parting] = []


def add_parting(parting: Parting) -> None:
    """Heed it from now on. Called when the site starts, once per app."""
    _PARTINGS.append(parting)


def partings() -> tuple[Parting, ...]:
    return tuple(_PARTINGS)
