"""The code panel of a review: one file of the candidate as it is, against its parent or against the reference."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from django.utils.safestring import SafeString

from stitchweb.review.blind import REFERENCE_FILE, Subject
from stitchweb.review.content import Lines
from stitchweb.runs.diffs import FileDiff, Row, candidate_diff, source_rows

MAX_ROWS = 4000
VIEWS = (("nothing", "code"), ("parent", "from parent"), ("reference", "from reference"))
Against = Literal["nothing", "parent", "reference"]


@dataclass(frozen=True)
class CodeRow:
    """A line. `side`, `file` and `line` say where a mark on it lies; `tags`: dimensions that it is marked for."""

    kind: str
    html: SafeString
    side: str = ""
    file: str = ""
    line: int | None = None
    old: int | None = None
    new: int | None = None
    sign: str = ""
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class CodePanel:
    against: str
    file: str
    tabs: list[tuple[str, str]]  # path, what to say of it
    rows: list[CodeRow]
    more: int
    added: int
    removed: int

    @property
    def is_diff(self) -> bool:
        return self.against != "nothing"


def code_panel(subject: Subject, against: str, file: str, marks: Iterable[Lines]) -> CodePanel:
    """The panel for a reader's choice; what the candidate does not have falls back to its first file as it is."""
    if against == "parent" and not subject.has_parent:
        against = "nothing"
    if against not in ("parent", "reference"):
        return _plain(subject, file, marks)
    diffs = candidate_diff(
        subject.files["candidate"],
        subject.files["parent"] if against == "parent" else None,
        subject.files["reference"][REFERENCE_FILE],
    )
    shown = next((d for d in diffs if d.path == file), diffs[0])
    rows = [_diff_row(row, shown, against, tuple(marks)) for row in shown.rows]
    tabs = [(d.path, _changed(d)) for d in diffs]
    return CodePanel(
        against, shown.path, tabs, rows[:MAX_ROWS], max(len(rows) - MAX_ROWS, 0), sum(d.added for d in diffs),
        sum(d.removed for d in diffs),
    )  # fmt: skip


def _changed(diff: FileDiff) -> str:
    if diff.gone:
        return "gone"
    if diff.new_file:
        return "new"
    return "" if diff.rows else "same"


def _plain(subject: Subject, file: str, marks: Iterable[Lines]) -> CodePanel:
    texts = subject.files["candidate"]
    side = "reference" if file == REFERENCE_FILE and file not in texts else "candidate"
    path = file if file in subject.files[side] else next(iter(texts), "")
    found = source_rows(path, subject.files[side].get(path, ""))
    every = tuple(marks)
    rows = [
        CodeRow("same", r.html, side, path, r.new, None, r.new, tags=_tags(every, side, path, r.new)) for r in found[:MAX_ROWS]
    ]
    tabs = [(p, "") for p in texts] + [(REFERENCE_FILE, "")]
    return CodePanel("nothing", path, tabs, rows, max(len(found) - MAX_ROWS, 0), 0, 0)


def _diff_row(row: Row, diff: FileDiff, against: str, marks: tuple[Lines, ...]) -> CodeRow:
    if row.kind == "hunk":
        return CodeRow("hunk", row.html)
    if row.new is not None:
        side, path, line = "candidate", diff.path, row.new
    else:
        side, path, line = against, (REFERENCE_FILE if against == "reference" else diff.path), row.old or 0
    return CodeRow(row.kind, row.html, side, path, line, row.old, row.new, row.sign, _tags(marks, side, path, line))


def _tags(marks: tuple[Lines, ...], side: str, file: str, line: int | None) -> tuple[str, ...]:
    if line is None:
        return ()
    return tuple(dict.fromkeys(m.dimension for m in marks if m.side == side and m.file == file and m.first <= line <= m.last))
