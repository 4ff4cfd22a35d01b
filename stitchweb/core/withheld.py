"""What is closed to a person for a time although their role would show it.

An app that knows why something is to stay unseen says so here, once, when the site starts; the access queries of programs and
runs ask here, so no page can forget it. Nothing is closed where no app says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet


@dataclass(frozen=True)
class Rule:
    """`programs(user)`: the keys of the programs that are closed to the person, with all their runs; `say(user, program)`: why
    one of them is, and when it opens."""

    programs: Callable[[Any], QuerySet[Any]]
    say: Callable[[Any, int], Closed]


class Closed(PermissionDenied):
    """A page that opens later. The message is a sentence for the person; `way_on`: words and address of what they can do."""

    def __init__(self, sentence: str, opens: str, way_on: tuple[str, str]) -> None:
        super().__init__(sentence)
        self.opens = opens
        self.way_on = way_on


_RULES: list[Rule] = []


def add_rule(rule: Rule) -> None:
    """Heed a rule from now on. Called when the site starts, once per rule."""
    _RULES.append(rule)


def open_to(user: Any, program: str = "pk") -> Q:
    """The condition that a row's program, at the path `program`, is not closed to the person."""
    condition = Q()
    for rule in _RULES:
        condition &= ~Q(**{f"{program}__in": rule.programs(user)})
    return condition


def refuse_closed(user: Any, program: int) -> None:
    """Raise `Closed` when this program is closed to the person."""
    for rule in _RULES:
        if program in set(rule.programs(user)):
            raise rule.say(user, program)
