"""How the matrix test visits the addresses of each app.

A file `APP.py` beside this one has a function `visits(stage)` that returns, for each of the app's addresses by name, one
`Visit` or several. Every address of the site needs one: the test names those that have none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from stitchweb.core.permissions import Action, Who


@dataclass(frozen=True)
class Visit:
    """One address with what it needs to answer.

    args     of the address, all of it of the stage's team, so that only permission decides
    data     the form of a POST, or with `json` the body
    meets    of those whom an action with a condition (`when`) names, the ones that fulfil it here; None: all
    action   what a form of this content does, where that is not what the row says
    method   the only one that this visit is for; "" for all of the row
    links    for `Who.LINK` and `Who.DEAD_LINK`: the args that hold the token, once for each link that is tried
    headers  of a request that comes with a token
    refused  statuses that are a refusal here, beside 401, 403, 404, 405 and the way to sign in
    opens    statuses that are no refusal here although they are elsewhere
    writes   a refusal writes something, for that is how it refuses
    away     the answer of an address that tells what is away, where that is 503
    """

    args: Mapping[str, Any] = field(default_factory=dict)
    query: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    json: bool = False
    meets: frozenset[Who] | None = None
    action: Action | None = None
    method: str = ""
    links: Mapping[Who, tuple[Mapping[str, Any], ...]] = field(default_factory=dict)
    headers: Callable[[Who], Mapping[str, str]] = lambda who: {}
    refused: tuple[int, ...] = ()
    opens: tuple[int, ...] = ()
    writes: bool = False
    away: bool = False


Visits = Mapping[str, Visit | tuple[Visit, ...]]


def whom(*names: str) -> frozenset[Who]:
    """Some of `Who`, by their words."""
    return frozenset(Who(name) for name in names)
