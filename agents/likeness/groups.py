"""Joining what belongs together into groups."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Link:
    """Two keys that belong together, and why, in words that end "… as "."""

    a: str
    b: str
    why: str


def components(keys: Iterable[str], links: Iterable[Link]) -> dict[str, str]:
    """Each key's group, named by its smallest member."""
    parent = {key: key for key in keys}

    def root(key: str) -> str:
        while parent[key] != key:
            parent[key] = parent[parent[key]]
            key = parent[key]
        return key

    for link in links:
        a, b = root(link.a), root(link.b)
        if a != b:
            parent[max(a, b)] = min(a, b)
    return {key: root(key) for key in parent}
