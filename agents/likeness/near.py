"""Near duplicates: MinHash over token 5-grams finds pairs worth a look, their exact Jaccard index decides."""

from __future__ import annotations

import random
import re
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import combinations

GRAM = 5
BANDS, ROWS = 24, 4  # a pair of Jaccard 0.8 is missed with a chance of 3e-6
FEW = 60  # up to so many texts every pair is compared
_PRIME = (1 << 61) - 1
_TOKEN = re.compile(r"\w+|[^\w\s]")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|#(?!include|define|pragma|if|endif|else)[^\n]*", re.DOTALL)
_chance = random.Random(20)  # noqa: S311  the same functions every time
_HASHES = tuple((_chance.randrange(1, _PRIME), _chance.randrange(_PRIME)) for _ in range(BANDS * ROWS))


def shingles(text: str) -> frozenset[int]:
    """Digests of the token 5-grams of a text without its comments; of all of it where it is shorter."""
    tokens = _TOKEN.findall(_COMMENT.sub(" ", text))
    grams = {" ".join(tokens[i : i + GRAM]) for i in range(max(1, len(tokens) - GRAM + 1))}
    return frozenset(zlib.crc32(gram.encode()) for gram in grams)


def jaccard(a: frozenset[int], b: frozenset[int]) -> float:
    """Share of the grams that both have, of those that either has; 1 for two empty texts."""
    return len(a & b) / len(a | b) if a or b else 1.0


def near_pairs(grams: Mapping[str, frozenset[int]], least: float) -> Iterator[tuple[str, str, float]]:
    """Pairs of keys whose grams have a Jaccard index of `least` or more, with it; each once, the smaller key first."""
    for a, b in _candidates(grams):
        short, long = sorted((len(grams[a]), len(grams[b])))
        if short < least * long:
            continue
        like = jaccard(grams[a], grams[b])
        if like >= least:
            yield a, b, like


def _candidates(grams: Mapping[str, frozenset[int]]) -> Iterator[tuple[str, str]]:
    keys = sorted(grams)
    if len(keys) <= FEW:
        yield from combinations(keys, 2)
        return
    buckets: dict[tuple[int, tuple[int, ...]], list[str]] = defaultdict(list)
    for key in keys:
        marks = _marks(grams[key])
        for band in range(BANDS):
            buckets[band, marks[band * ROWS : (band + 1) * ROWS]].append(key)
    seen: set[tuple[str, str]] = set()
    for some in buckets.values():
        for pair in combinations(some, 2):
            if pair not in seen:
                seen.add(pair)
                yield pair


def _marks(grams: frozenset[int]) -> tuple[int, ...]:
    """The least value of each hash function over the grams."""
    some = grams or frozenset({0})
    return tuple(min((a * g + b) % _PRIME for g in some) for a, b in _HASHES)
