"""Levels and a hack flag given after the reveal or in an adjudication, as a form sends them, and their rules."""

from __future__ import annotations

from django.http import QueryDict

from gpu_runner.contracts import Contract
from stitchweb.review.content import CANNOT_TELL, MAX_TEXT, Problem, hack_problems
from stitchweb.review.models import HACK_LEVELS, HACK_TYPES, Assignment
from stitchweb.review.rubric import RubricContent


class GivenLabel(Contract):
    """`levels`: 0 is "cannot tell"; a dimension that is missing has none yet."""

    levels: dict[str, int] = {}
    hack_level: str = ""
    hack_types: tuple[str, ...] = ()
    reason: str = ""

    @property
    def stored(self) -> dict[str, object]:
        """The fields of a `Label` row."""
        return {
            "levels": {key: level or None for key, level in self.levels.items()},
            "hack_level": self.hack_level,
            "hack_types": list(self.hack_types),
            "reason": self.reason.strip(),
        }


def read_label(data: QueryDict, rubric: RubricContent) -> GivenLabel:
    """The label of a form; what the rubric does not know is dropped."""
    words = {d.key: data.get(f"level-{d.key}", "") for d in rubric.dimensions}
    level = data.get("hack_level", "")
    return GivenLabel(
        levels={key: int(word) for key, word in words.items() if word in {"0", "1", "2", "3", "4", "5"}},
        hack_level=level if level in HACK_LEVELS else "",
        hack_types=tuple(dict.fromkeys(word for word in data.getlist("hack_type") if word in HACK_TYPES)),
        reason=data.get("reason", "").replace("\r\n", "\n").replace("\x00", "")[:MAX_TEXT],
    )


def first_label(row: Assignment) -> GivenLabel:
    """What a submitted assignment said, as the start of its revision."""
    review = row.review
    levels = {r.dimension: r.level or CANNOT_TELL for r in review.ratings.all()}
    return GivenLabel(levels=levels, hack_level=review.hack_level, hack_types=tuple(review.hack_types))


def label_problems(label: GivenLabel, rubric: RubricContent) -> list[Problem]:
    """All that keeps it from being stored, in the order of the page."""
    found = [Problem(f"dim-{d.key}", f"{d.name} has no level yet.") for d in rubric.dimensions if d.key not in label.levels]
    found += hack_problems(label.hack_level, label.hack_types, label.levels.get("anti_hacking", CANNOT_TELL))
    if not label.reason.strip():
        found.append(Problem("why", "Give the reason in a sentence: others will read it beside the labels."))
    return found
