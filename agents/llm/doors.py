"""How a model is reached: with which key, and under which guard. The command line has its own doors, a site its teams'."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agents.llm.guard import Guard
from agents.llm.keys import Secret, key_of
from agents.model_choice import ModelChoice

if TYPE_CHECKING:
    from agents.llm.cassette import Line


@dataclass(frozen=True)
class Door:
    """`name`: what sentences call the key. `guard` None: the base URL is the user's own and is not judged. `line`: what
    records the answers, or plays recorded ones; None: the model is asked and that is all."""

    name: str = ""
    secret: Secret | None = field(default=None, repr=False)
    guard: Guard | None = None
    line: Line | None = None


Doors = Callable[[ModelChoice], Door]  # NoKey with a sentence where a model cannot be reached


def own_door(choice: ModelChoice) -> Door:
    """The key that this process was given under the choice's name. NoKey when it was given none of that name."""
    return Door(choice.key, key_of(choice.key), line=_lines[-1] if _lines else None)


_lines: list[Line] = []


@contextmanager
def through(line: Line | None) -> Iterator[None]:
    """While inside, this process's own doors record to a cassette, or play one. None: neither."""
    if line is None:
        yield
        return
    _lines.append(line)
    try:
        yield
    finally:
        _lines.remove(line)
