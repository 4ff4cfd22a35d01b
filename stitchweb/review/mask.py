"""Hides names in code and prose, however they are spelled: other case, lookalike letters, other or no separators.

A text is read as a skeleton of plain lower-case letters and digits that knows where each of them came from; what matches a
name there is hidden in the text. Abbreviations, nicknames and names that are written in numbers pass: nobody can list them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

HIDDEN = "▒▒▒"
ANYWHERE = 6  # letters from which on a name is found inside of other words too

# Letters of other scripts that look like Latin ones and that Unicode does not map to them.
_ALIKE = str.maketrans(
    "аеорсухіјѕԁһӏьвкмнтꙇԛԝ" "αβγδεηικνοορτυχωϲϳ" "օսոհցզյ" "ıƖɑɡɩʀʏ" "øðđłħŧæœß",
    "aeopcyxijsdhlbbkmhtiqw" "abydenikvooptuxwcj" "ounhgqj" "ilagiry" "oddlhtaos",
)  # fmt: skip
_ASCII = {n: ord(c.lower() if c.isalnum() or c in "_\n" else " ") for n in range(128) for c in (chr(n),)}


@lru_cache(maxsize=20_000)
def _plain(char: str) -> str:
    """A character as the skeleton has it: empty for marks and for what is not seen, a blank for what stands between words."""
    if unicodedata.category(char) in ("Cf", "Mn", "Me"):
        return ""
    folded = unicodedata.normalize("NFKD", char).casefold()
    folded = "".join(c for c in folded if unicodedata.category(c) not in ("Mn", "Me")).translate(_ALIKE)
    return "".join(c if c.isalnum() or c == "_" else " " for c in folded)


def _tokens(name: str) -> list[str]:
    return "".join(map(_plain, name)).replace("_", " ").split()


def _of_name(name: str) -> str:
    """A pattern over skeletons; empty for a name that is too short to tell from anything else."""
    tokens = _tokens(name)
    letters = "".join(tokens)
    if len(letters) < (3 if letters.isascii() else 2):
        return ""
    if len(letters) >= ANYWHERE:
        return "[ _]*".join("[ _]?".join(map(re.escape, token)) for token in tokens)
    inside = "[ _]*".join(map(re.escape, tokens))
    if any(c >= "\u2e80" for c in letters):  # such scripts put no space between words
        return inside
    return rf"(?<!\w){inside}(?!\w)" if len(tokens) == 1 else rf"(?<![^\W_]){inside}(?![^\W_])"


def _of_word(word: str) -> str:
    return rf"(?<!\w){'[ _]*'.join(map(re.escape, _tokens(word)))}(?!\w)"


def _joined(patterns: Iterable[str]) -> re.Pattern[str] | None:
    some = sorted({p for p in patterns if p}, key=len, reverse=True)
    return re.compile("|".join(some)) if some else None


class Mask:
    """Hides names in any text, and in prose `words` as well. Lines stay lines.

    `as_written`: names that may be common words too, hidden only where they stand as they are written here.
    """

    def __init__(self, names: Iterable[str], words: Iterable[str] = (), as_written: Iterable[str] = ()) -> None:
        exact = sorted({w for w in as_written if len(w) > 2}, key=len, reverse=True)
        self._names = _joined(map(_of_name, names))
        self._exact = re.compile(rf"(?<![^\W_])(?:{'|'.join(map(re.escape, exact))})(?![^\W_])") if exact else None
        self._words = _joined(map(_of_word, words))

    def code(self, text: str) -> str:
        text = _hidden(text, self._names)
        return self._exact.sub(HIDDEN, text) if self._exact else text

    def prose(self, text: str) -> str:
        return _hidden(self.code(text), self._words)

    def tree(self, value: Any) -> Any:
        """The same of every text in a value of JSON; keys stay."""
        if isinstance(value, str):
            return self.code(value)
        if isinstance(value, Mapping):
            return {key: self.tree(one) for key, one in value.items()}
        return [self.tree(one) for one in value] if isinstance(value, list | tuple) else value


def _hidden(text: str, names: re.Pattern[str] | None) -> str:
    if names is None or not text:
        return text
    if text.isascii():
        return _replaced(text, text.translate(_ASCII), None, names)
    return "\n".join(_line(line, names) for line in text.split("\n"))


def _line(line: str, names: re.Pattern[str]) -> str:
    if line.isascii():
        return _replaced(line, line.translate(_ASCII), None, names)
    parts = [(c, at) for at, char in enumerate(line) for c in _plain(char)]
    return _replaced(line, "".join(c for c, _ in parts), [at for _, at in parts], names)


def _replaced(text: str, skeleton: str, places: Sequence[int] | None, names: re.Pattern[str]) -> str:
    """The text with what matches in its skeleton hidden. `places`: where each letter came from; None: where it stands."""
    out: list[str] = []
    last = 0
    for found in names.finditer(skeleton):
        first = found.start() if places is None else places[found.start()]
        end = found.end() if places is None else places[found.end() - 1] + 1
        if first >= last:
            out += [text[last:first], HIDDEN]
            last = end
    return "".join([*out, text[last:]])
