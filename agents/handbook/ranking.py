"""BM25: how well texts answer a query of weighted words, by how often they hold its words and how rare those are.

Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009). Words of a field that weighs more are
counted more often. Deterministic: equal scores come in the order of their names.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping

SATURATION, LENGTH = 1.2, 0.75  # k1 and b
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+[a-z]*|[a-z]+\d+")
_COMMON = frozenset(
    "a an and are as at be by each for from has have if in into is it its more no not of on one only or so than that the their"
    " then there they this to two was what when where which with without".split()
)


def words(text: str) -> list[str]:
    """The words of a text in small letters, plurals as singulars; `GroupNorm` and `group_norm` are two words each."""
    return [short for word in _WORD.findall(text) if (short := _short(word.lower())) not in _COMMON]


def _short(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is", "as")) else word


class Index:
    """Texts by name, each as its words and how often they count."""

    def __init__(self, texts: Mapping[str, Mapping[str, float]]) -> None:
        self._texts = dict(texts)
        lengths = {name: sum(counts.values()) for name, counts in self._texts.items()}
        mean = sum(lengths.values()) / max(1, len(lengths)) or 1.0
        self._damping = {name: SATURATION * (1 - LENGTH + LENGTH * length / mean) for name, length in lengths.items()}
        holding = Counter(word for counts in self._texts.values() for word in counts)
        total = len(self._texts)
        self._rarity = {word: math.log(1 + (total - n + 0.5) / (n + 0.5)) for word, n in holding.items()}

    def ranked(self, query: Mapping[str, float], among: Iterable[str] | None = None) -> list[tuple[str, float]]:
        """Names with their scores, the best first; those that share no word with the query are left out."""
        names = self._texts if among is None else among
        scored = [(name, score) for name in names if (score := self._score(name, query)) > 0.0]
        return sorted(scored, key=lambda pair: (-pair[1], pair[0]))

    def _score(self, name: str, query: Mapping[str, float]) -> float:
        counts, damping = self._texts[name], self._damping[name]
        return sum(
            weight * self._rarity[word] * counts[word] * (SATURATION + 1) / (counts[word] + damping)
            for word, weight in sorted(query.items())
            if word in counts
        )
