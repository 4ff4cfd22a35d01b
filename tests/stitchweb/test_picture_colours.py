"""The fills of the pictures: told apart by every kind of sight, with text on them that can be read."""

from __future__ import annotations

import math
import re
from itertools import combinations
from pathlib import Path

import pytest

STATIC = Path(__file__).resolve().parents[2] / "static" / "css"
SIGHT = {  # Machado and others 2009, complete dichromacy, on linear RGB
    "normal": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protan": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deutan": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.01182, 0.04294, 0.968881)),
    "tritan": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.3039)),
}
TO_LMS = ((0.4122214708, 0.5363325363, 0.0514459929), (0.2119034982, 0.6806995451, 0.1073969566),
          (0.0883024619, 0.2817188376, 0.6299787005))  # fmt: skip
TO_LAB = ((0.2104542553, 0.793617785, -0.0040720468), (1.9779984951, -2.428592205, 0.4505937099),
          (0.0259040371, 0.7827717662, -0.808675766))  # fmt: skip


def times(matrix, vector):
    return [sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix]


def linear(colour: str) -> list[float]:
    parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    return [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]


def oklab(rgb: list[float]) -> list[float]:
    return times(TO_LAB, [max(v, 0.0) ** (1 / 3) for v in times(TO_LMS, [max(v, 0.0) for v in rgb])])


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_the_parts_of_the_time_are_told_apart_by_every_sight_and_their_labels_are_read(theme):
    sheets = "".join((STATIC / name).read_text() for name in ("tokens.css", "pictures.css"))
    found = {name: pair for name, *pair in re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", sheets)}
    names = [f"p-{n}" for n in ("kernel", "copy", "memset", "sync", "host", "launch", "dependency", "uvm")]
    fills = {name: linear(found[name][theme]) for name in [*names, "line-2", "surface"]}
    for matrix in SIGHT.values():
        seen = {name: oklab(times(matrix, rgb)) for name, rgb in fills.items()}
        for one, two in combinations(seen, 2):
            assert 100 * math.dist(seen[one], seen[two]) >= 6, (one, two)
    ink = times(((0.2126, 0.7152, 0.0722),), linear(found["text"][theme]))[0]
    for name in names:
        low, high = sorted((ink, times(((0.2126, 0.7152, 0.0722),), fills[name])[0]))
        assert (high + 0.05) / (low + 0.05) >= 4.5, name
