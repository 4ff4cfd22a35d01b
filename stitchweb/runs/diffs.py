"""Diffs of candidates: highlighted by class, per file, with the changed words marked where few changed.

Sources are hostile text. They become markup in one place, `_spans`, where every character passes `escape`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from pygments.lexer import Lexer
from pygments.lexers import CppLexer, CudaLexer, PythonLexer, TextLexer, TOMLLexer
from pygments.token import Comment, Keyword, Name, Number, String, _TokenType

CONTEXT = 3
MAX_LINES = 6000  # of one side; beyond, lines are shown without colours and without word marks
REFERENCE_FILE = "reference.py"

# The few classes that the style sheet colours: three hues carry the eye further than thirty.
_CLASSES: tuple[tuple[_TokenType, str], ...] = (
    (Comment.Preproc, "cp"), (Comment.PreprocFile, "cp"), (Comment, "c"), (Keyword.Type, "kt"), (Keyword, "k"),
    (Number, "m"), (String, "s"), (Name.Function, "nf"), (Name.Class, "nf"), (Name.Builtin, "kt"),
)  # fmt: skip
_LEXERS: dict[str, type[Lexer]] = {
    "py": PythonLexer, "cu": CudaLexer, "cuh": CudaLexer, "cpp": CppLexer, "h": CppLexer, "hpp": CppLexer, "toml": TOMLLexer,
}  # fmt: skip
_WORD = re.compile(r"\w+|\s+|[^\w\s]")

Piece = tuple[str, str]  # class (or ""), text
Kind = Literal["same", "add", "del", "hunk"]


@dataclass(frozen=True)
class Row:
    """One line of a diff. `old` and `new` are line numbers from 1, None on the side where the line is missing."""

    kind: Kind
    old: int | None
    new: int | None
    html: SafeString

    @property
    def sign(self) -> str:
        return {"add": "+", "del": "−"}.get(self.kind, "")


@dataclass(frozen=True)
class FileDiff:
    """How one file changed. Without rows it did not."""

    path: str
    added: int
    removed: int
    rows: tuple[Row, ...]
    new_file: bool = False
    gone: bool = False


def _class_of(kind: _TokenType) -> str:
    return next((name for token, name in _CLASSES if kind in token), "")


def _lines(text: str, path: str) -> list[list[Piece]]:
    """The text in lines, each a list of (class, text) pieces."""
    raw = text.split("\n")
    if raw and raw[-1] == "":
        raw.pop()
    if len(raw) > MAX_LINES:
        return [[("", line)] for line in raw]
    lexer = _LEXERS.get(path.rsplit(".", 1)[-1], TextLexer)(stripnl=False, ensurenl=False)
    lines: list[list[Piece]] = [[]]
    for kind, value in lexer.get_tokens(text):
        name = _class_of(kind)
        for i, part in enumerate(value.split("\n")):
            if i:
                lines.append([])
            if part:
                lines[-1].append((name, part))
    # A lexer normalises line ends; if it disagrees about the number of lines, the plain text wins.
    lines = lines[: len(raw)] + [[]] * (len(raw) - len(lines))
    return [line if "".join(t for _, t in line) == plain else [("", plain)] for line, plain in zip(lines, raw, strict=True)]


def _spans(pieces: Sequence[Piece], marks: Sequence[tuple[int, int]] = ()) -> SafeString:
    """Markup of a line; `marks` are character ranges to show as changed words."""
    out: list[str] = []
    at = 0
    for name, text in pieces:
        for marked, part in _split(text, at, marks):
            html = escape(part)
            if name:
                html = f'<span class="{name}">{html}</span>'
            out.append(f'<b class="w">{html}</b>' if marked else html)
        at += len(text)
    return mark_safe("".join(out))  # noqa: S308  every part went through escape above


def _split(text: str, at: int, marks: Sequence[tuple[int, int]]) -> Iterator[tuple[bool, str]]:
    """The parts of `text`, which starts at column `at`, inside and outside of the marks."""
    place = 0
    for start, end in marks:
        start, end = max(start - at, 0), min(end - at, len(text))
        if end <= place or start >= end:
            continue
        if start > place:
            yield False, text[place:start]
        yield True, text[max(start, place) : end]
        place = end
    if place < len(text):
        yield False, text[place:]


def _word_marks(old: str, new: str) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Changed ranges of two versions of a line; none when most of it changed: then the whole line is the news."""
    a, b = _WORD.findall(old), _WORD.findall(new)
    matcher = difflib.SequenceMatcher(None, a, b, autojunk=False)
    if matcher.ratio() < 0.55:
        return [], []
    left: list[tuple[int, int]] = []
    right: list[tuple[int, int]] = []
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            continue
        for marks, words, start, end in ((left, a, i1, i2), (right, b, j1, j2)):
            column = sum(map(len, words[:start]))
            width = sum(map(len, words[start:end]))
            if width:
                marks.append((column, column + width))
    return left, right


def _plain(pieces: Sequence[Piece]) -> str:
    return "".join(text for _, text in pieces)


def _replaced(old: Sequence[list[Piece]], new: Sequence[list[Piece]], i1: int, i2: int, j1: int, j2: int) -> Iterator[Row]:
    """Rows of a changed block: first what went, then what came; lines that answer each other get word marks."""
    pairs = min(i2 - i1, j2 - j1) if i2 - i1 <= 12 and j2 - j1 <= 12 else 0
    marks = [_word_marks(_plain(old[i1 + k]), _plain(new[j1 + k])) for k in range(pairs)]
    for k, i in enumerate(range(i1, i2)):
        yield Row("del", i + 1, None, _spans(old[i], marks[k][0] if k < pairs else ()))
    for k, j in enumerate(range(j1, j2)):
        yield Row("add", None, j + 1, _spans(new[j], marks[k][1] if k < pairs else ()))


@lru_cache(maxsize=256)
def file_diff(path: str, old: str | None, new: str | None, old_path: str = "") -> FileDiff:
    """The diff of one file. None: the file is not there on that side. `old_path` names the other side's language."""
    left, right = _lines(old or "", old_path or path), _lines(new or "", path)
    matcher = difflib.SequenceMatcher(None, [_plain(p) for p in left], [_plain(p) for p in right], autojunk=False)
    rows: list[Row] = []
    added = removed = 0
    for group in matcher.get_grouped_opcodes(CONTEXT):
        i1, j1, i2, j2 = group[0][1], group[0][3], group[-1][2], group[-1][4]
        rows.append(Row("hunk", None, None, escape(f"@@ −{i1 + 1},{i2 - i1} +{j1 + 1},{j2 - j1} @@")))
        for tag, a1, a2, b1, b2 in group:
            if tag == "equal":
                rows.extend(Row("same", a1 + k + 1, b1 + k + 1, _spans(right[b1 + k])) for k in range(a2 - a1))
            else:
                added, removed = added + b2 - b1, removed + a2 - a1
                rows.extend(_replaced(left, right, a1, a2, b1, b2))
    return FileDiff(path, added, removed, tuple(rows), new_file=old is None, gone=new is None)


@lru_cache(maxsize=128)
def source_rows(path: str, text: str) -> tuple[Row, ...]:
    """A whole file, highlighted, as rows of kind "same"."""
    return tuple(Row("same", i, i, _spans(pieces)) for i, pieces in enumerate(_lines(text, path), 1))


_HEADERS = (".h", ".hpp", ".cuh")


def candidate_diff(files: Mapping[str, str], parent: Mapping[str, str] | None, reference: str) -> list[FileDiff]:
    """All files of a candidate against its parent's, or against the reference where `parent` is None.

    Against the reference, `model_new.py` is compared with the reference's one file and everything else is new. Changed files
    come first, and of them what was written for this program before the headers it includes.
    """
    if parent is None:
        diffs = [
            file_diff(
                path, reference if path == "model_new.py" else None, text, REFERENCE_FILE if path == "model_new.py" else ""
            )
            for path, text in files.items()
        ]
    else:
        paths = [*files, *(p for p in parent if p not in files)]
        diffs = [file_diff(path, parent.get(path), files.get(path)) for path in paths]
    return sorted(
        diffs, key=lambda d: (not d.rows, d.path in ("model_new.py", "candidate.toml"), d.path.endswith(_HEADERS), d.path)
    )
