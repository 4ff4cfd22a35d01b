"""Every address and socket that the site has, and which of them lack a row in the permission table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from django.core.checks import CheckMessage, Warning, register
from django.urls import URLPattern, URLResolver, get_resolver

from stitchweb.core.permissions import how_to_add, table


def addresses(resolver: URLResolver | None = None, space: str = "", prefix: str = "") -> Iterator[tuple[str, str]]:
    """Name as the table has it, and the pattern, of each address."""
    for entry in (resolver or get_resolver()).url_patterns:
        pattern = prefix + str(entry.pattern)
        if isinstance(entry, URLResolver):
            yield from addresses(entry, f"{space}{entry.namespace}:" if entry.namespace else space, pattern)
        elif isinstance(entry, URLPattern):
            yield (f"{space}{entry.name}" if entry.name else pattern), pattern


def without_row(names: Iterable[str]) -> list[str]:
    """Those of `names` that the table does not have."""
    return sorted({name for name in names if name not in table().routes})


@register()
def every_address_has_a_row(**_: Any) -> list[CheckMessage]:
    """What `manage.py check` says about addresses without a row, and rows without an address."""
    names = {name for name, _ in addresses()}
    lacking = [Warning(how_to_add(name), id="stitchweb.W001") for name in without_row(names)]
    left = [
        Warning(f"ROUTES[{name!r}] of a permissions.py is the row of no address.", id="stitchweb.W002")
        for name in sorted(set(table().routes) - names)
    ]
    return lacking + left
