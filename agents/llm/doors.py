"""How a model is reached: with which key, and under which guard. The command line has its own doors, a site its teams'."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from agents.llm.guard import Guard
from agents.llm.keys import Secret, key_of
from agents.model_choice import ModelChoice


@dataclass(frozen=True)
class Door:
    """`name`: what sentences call the key. `guard` None: the base URL is the user's own and is not judged."""

    name: str = ""
    secret: Secret | None = field(default=None, repr=False)
    guard: Guard | None = None


Doors = Callable[[ModelChoice], Door]  # NoKey with a sentence where a model cannot be reached


def own_door(choice: ModelChoice) -> Door:
    """The key that this process was given under the choice's name. NoKey when it was given none of that name."""
    return Door(choice.key, key_of(choice.key))
