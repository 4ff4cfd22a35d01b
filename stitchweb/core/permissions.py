"""Who may do what: the one table, and what makes it whole.

Every app says its own part in `APP/permissions.py`, with the classes of this file:

    SEE = Action("run.see", "See a run with all that it measured", TEAM)
    ROUTES = {"run": get(SEE), "run-control": post(STEER), "run-plan": Route(get=STEER, post=STEER)}
    SOCKETS = {"ws/runs/<int:pk>/": SEE}
    TASKS = {"stitchweb.advance_run": STEER}

Access queries take an action and let in whom it names (`stitchweb/teams/access.py`). The gate (`stitchweb/core/gate.py`)
refuses an address without a row. `manage.py permissions` writes docs/permissions.md from here, and
tests/stitchweb/test_permission_matrix.py visits every address as everybody.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from types import ModuleType

import stitchweb


class Who(StrEnum):
    """Everybody that an answer can depend on. The five roles are those of a team, with the words of `teams.models.Role`."""

    ANONYMOUS = "anonymous"  # nobody is signed in
    OUTSIDER = "outsider"  # signed in, and not in the team that the row belongs to
    VIEWER = "viewer"
    REVIEWER = "reviewer"
    MEMBER = "member"
    MAINTAINER = "maintainer"
    OWNER = "owner"
    OPERATOR = "operator"  # runs the site (`User.is_staff`), and is not in the team
    LINK = "link"  # not signed in, with a link that is good
    DEAD_LINK = "dead link"  # not signed in, with a link that has expired, was revoked or used up
    RUNNER = "runner"  # a machine, with the token of a job


NOBODY: frozenset[Who] = frozenset()
MANAGERS = frozenset({Who.OWNER, Who.MAINTAINER})
WORKERS = MANAGERS | {Who.MEMBER}
REVIEWERS = MANAGERS | {Who.REVIEWER}
TEAM = WORKERS | REVIEWERS | {Who.VIEWER}
SIGNED_IN = TEAM | {Who.OUTSIDER, Who.OPERATOR}
ANYBODY = frozenset(Who)
OPERATORS = frozenset({Who.OPERATOR})
LINKED = frozenset({Who.LINK})
RUNNERS = frozenset({Who.RUNNER})


@dataclass(frozen=True)
class Action:
    """One thing to do. `who` may do it, everybody else is refused; `when` narrows it further for those, in a sentence."""

    name: str
    says: str
    who: frozenset[Who] = field(compare=False)
    when: str = field(default="", compare=False)

    @property
    def roles(self) -> frozenset[str]:
        """The roles of a team among `who`, as a database knows them."""
        return frozenset(str(who) for who in self.who & TEAM)

    @property
    def lowest(self) -> str:
        """The least of those roles: what somebody would have to be."""
        return next((str(who) for who in Who if who in self.who & TEAM), "")

    @property
    def needs_person(self) -> bool:
        """Only somebody who is signed in may do it."""
        return self.who <= SIGNED_IN


@dataclass(frozen=True)
class Route:
    """What the methods of an address do. One that is not named is refused with 405; HEAD and OPTIONS are as GET.

    `by_token`: whoever comes is told by a token in the request, not by a session, so the view itself asks who it is.
    `limit`: of `stitchweb/core/limits.py`, counted for each request; without one, what is sent counts as "write".
    `refuses_nulls`: its form says what is wrong with null bytes, which the gate replaces elsewhere.
    """

    get: Action | None = None
    post: Action | None = None
    put: Action | None = None
    patch: Action | None = None
    delete: Action | None = None
    by_token: bool = False
    limit: str = ""
    refuses_nulls: bool = False

    def action(self, method: str) -> Action | None:
        name = "get" if method in ("HEAD", "OPTIONS") else method.lower()
        return getattr(self, name) if name in _METHODS else None

    @property
    def methods(self) -> dict[str, Action]:
        """Method, in capitals, to what it does."""
        return {name.upper(): action for name in _METHODS if (action := getattr(self, name)) is not None}


_METHODS = ("get", "post", "put", "patch", "delete")


def get(action: Action) -> Route:
    """An address that is only read."""
    return Route(get=action)


def post(action: Action) -> Route:
    """An address that only takes forms."""
    return Route(post=action)


def form(action: Action, refuses_nulls: bool = False) -> Route:
    """A page whose form comes back to it."""
    return Route(get=action, post=action, refuses_nulls=refuses_nulls)


@dataclass(frozen=True)
class Table:
    """All of it. `actions` by name, `routes` by the name of the address with its namespaces, `sockets` by pattern, `tasks` by
    the task's name."""

    actions: Mapping[str, Action]
    routes: Mapping[str, Route]
    sockets: Mapping[str, Action]
    tasks: Mapping[str, Action]


class Twice(Exception):
    """Two apps say the same name."""


@cache
def table() -> Table:
    """The rows of all apps. Twice where two of them claim one name."""
    actions: dict[str, Action] = {}
    routes: dict[str, Route] = {}
    sockets: dict[str, Action] = {}
    tasks: dict[str, Action] = {}
    for app, module in _modules():
        for action in vars(module).values():
            if isinstance(action, Action) and actions.setdefault(action.name, action) is not action:
                raise Twice(f"The action {action.name!r} of stitchweb/{app}/permissions.py is another app's already.")
        for into, rows in ((routes, "ROUTES"), (sockets, "SOCKETS"), (tasks, "TASKS")):
            for name, row in getattr(module, rows, {}).items():
                if name in into:
                    raise Twice(f"{rows}[{name!r}] of stitchweb/{app}/permissions.py is in another app's already.")
                into[name] = row
    return Table(actions, routes, sockets, tasks)


def _modules() -> list[tuple[str, ModuleType]]:
    """The `permissions` of every package in the shop, but this file."""
    found = []
    for package in pkgutil.iter_modules(stitchweb.__path__):
        name = f"stitchweb.{package.name}.permissions"
        if package.ispkg and name != __name__ and importlib.util.find_spec(name) is not None:
            found.append((package.name, importlib.import_module(name)))
    return found


def how_to_add(name: str) -> str:
    """What to do about an address without a row."""
    return (
        f"The address {name!r} has no row in the permission table. Add it to ROUTES in the permissions.py of its app"
        " (CONTRIBUTING.md, “How to add a permission”), then run: manage.py permissions --write"
    )
