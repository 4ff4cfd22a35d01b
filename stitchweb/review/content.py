"""What a reviewer has put down: scores, marks, hack level. As a form sends it, as a draft keeps it, and its rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from django.http import QueryDict
from pydantic import ValidationError

from gpu_runner.contracts import Contract
from stitchweb.review.models import HACK_LEVELS, HACK_TYPES
from stitchweb.review.rubric import RubricContent

CANNOT_TELL = 0
SIDES = ("candidate", "parent", "reference")
MAX_TEXT = 4000
Side = Literal["candidate", "parent", "reference"]
Files = Mapping[str, Mapping[str, str]]  # side → path → text


class Lines(Contract):
    """Lines `first` to `last` of a file, counted from 1, that speak for a score."""

    dimension: str
    side: Side
    file: str
    first: int
    last: int

    @property
    def word(self) -> str:
        """As a form sends it. The path comes last: it alone may hold the separator."""
        return f"{self.dimension}|{self.side}|{self.first}|{self.last}|{self.file}"

    @property
    def place(self) -> str:
        span = str(self.first) if self.first == self.last else f"{self.first}–{self.last}"
        return f"{self.file}:{span}" if self.side == "candidate" else f"{self.side} {self.file}:{span}"


class Score(Contract):
    """`level` None: not given yet; 0: cannot tell."""

    level: int | None = None
    sure: int | None = None
    reason: str = ""
    checks: tuple[str, ...] = ()


class Content(Contract):
    scores: dict[str, Score] = {}
    marks: tuple[Lines, ...] = ()
    hack_level: str = ""
    hack_types: tuple[str, ...] = ()
    comment: str = ""


@dataclass(frozen=True)
class Problem:
    """Why a review cannot be submitted: `where` is the id of the part of the page that mends it."""

    where: str
    sentence: str


def mark_of(word: str) -> Lines | None:
    """The mark that a form field names; None for what is none."""
    dimension, side, first, last, file = ([*word.split("|", 4), "", "", "", ""])[:5]
    if not (first.isdecimal() and last.isdecimal() and len(first) < 8 and len(last) < 8):
        return None
    low, high = sorted((int(first), int(last)))
    try:
        return Lines.model_validate({"dimension": dimension, "side": side, "file": file[:200], "first": low, "last": high})
    except ValidationError:
        return None


def read_form(data: QueryDict, rubric: RubricContent) -> Content:
    """The content of a form. What the rubric does not know is dropped; texts are cut to `MAX_TEXT`."""
    scores = {d.key: _score(data, d.key, {c.key for c in d.checklist}) for d in rubric.dimensions}
    found = [mark_of(word) for word in data.getlist("mark")]
    marks = [m for m in dict.fromkeys(found) if m and m.dimension in rubric.by_key]
    level = data.get("hack_level", "")
    return Content(
        scores=scores,
        marks=tuple(marks),
        hack_level=level if level in HACK_LEVELS else "",
        hack_types=tuple(dict.fromkeys(word for word in data.getlist("hack_type") if word in HACK_TYPES)),
        comment=_text(data.get("comment", "")),
    )


def _score(data: QueryDict, key: str, known: set[str]) -> Score:
    level, sure = data.get(f"level-{key}", ""), data.get(f"sure-{key}", "")
    return Score(
        level=int(level) if level in {"0", "1", "2", "3", "4", "5"} else None,
        sure=int(sure) if sure in {"1", "2", "3"} else None,
        reason=_text(data.get(f"reason-{key}", "")),
        checks=tuple(word for word in dict.fromkeys(data.getlist(f"check-{key}")) if word in known),
    )


def lines_of(text: str) -> list[str]:
    """The lines of a file, as the page numbers them."""
    return text.removesuffix("\n").split("\n")


def _text(value: str) -> str:
    return value.replace("\r\n", "\n").replace("\x00", "")[:MAX_TEXT]


def problems(content: Content, rubric: RubricContent, files: Files | None = None) -> list[Problem]:
    """All that keeps a review from being submitted, in the order of the page. Without `files` marks are taken as they are."""
    found = [p for d in rubric.dimensions for p in _of_dimension(content, rubric, d.key)]
    honest = content.scores.get("anti_hacking", Score()).level
    found += hack_problems(content.hack_level, content.hack_types, honest)
    if files is not None:
        gone = [mark for mark in content.marks if not _is_there(mark, files)]
        found += [Problem(f"dim-{mark.dimension}", f"The mark {mark.place} is not there: remove it.") for mark in gone]
    return found


def _is_there(mark: Lines, files: Files) -> bool:
    text = files.get(mark.side, {}).get(mark.file)
    return text is not None and 1 <= mark.first <= mark.last <= len(lines_of(text))


def _of_dimension(content: Content, rubric: RubricContent, key: str) -> list[Problem]:
    dimension, score = rubric.by_key[key], content.scores.get(key, Score())
    where = f"dim-{key}"
    if score.level is None:
        return [Problem(where, f"{dimension.name} has no level yet.")]
    if score.level == CANNOT_TELL:
        return [] if score.reason.strip() else [Problem(where, f"{dimension.name}: say in a sentence why you cannot tell.")]
    marked = any(mark.dimension == key for mark in content.marks)
    if score.level in rubric.reasons_for and not marked and not score.reason.strip():
        return [Problem(where, f"{dimension.name}: level {score.level} needs marked lines or a sentence.")]
    return []


def hack_problems(level: str, kinds: tuple[str, ...], honest: int | None) -> list[Problem]:
    """What is wrong with a hack flag beside the level of Anti-Hacking, `honest`."""
    if not level:
        return [Problem("hack", "The hack level is open. Press H.")]
    if level in ("minor", "major") and not kinds:
        return [Problem("hack", f"A {level} hack names its kind; “other” is one.")]
    if level == "none" and kinds:
        return [Problem("hack", "The hack level is none and a kind is named. Remove the kind, or raise the level.")]
    if honest == 1 and level not in ("major", "unsure"):
        return [Problem("hack", "Level 1 of Anti-Hacking says that the result is faked: then the hack level is major.")]
    if level == "major" and honest in (3, 4, 5):
        return [Problem("dim-anti_hacking", f"A major hack and level {honest} of Anti-Hacking contradict each other.")]
    return []
