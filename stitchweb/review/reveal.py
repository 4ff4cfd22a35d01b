"""What is shown once a review is submitted: one's own scores, what was hidden, and the peers who have submitted too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stitchweb.review.models import Assignment, Mark, Rating, Review, Reviewer
from stitchweb.runs.access import may_watch
from stitchweb.runs.history import view_of


@dataclass(frozen=True)
class Column:
    """One review as a column. `who`: "you" or a pseudonym."""

    who: str
    review: Review
    ratings: dict[str, Rating]
    marks: dict[str, list[Mark]]


def revealed(row: Assignment) -> dict[str, Any]:
    """For `review/done.html`. Call it for a submitted assignment only."""
    item = row.item
    view = view_of(item.run_id)
    candidate = view.candidates.get(item.candidate)
    columns = _columns(row)
    rubric = item.project.rubric.parsed
    return {
        "project": item.project,
        "rubric": rubric,
        "candidate": candidate,
        "check": (candidate.check or {}) if candidate else {},
        "engineers": view.header.engineers if view.header else {},
        "owner": item.run.owner,
        "may_watch": may_watch(row.user, item.run_id),
        "columns": columns,
        "spread": {d.key: _spread(columns, d.key) for d in rubric.dimensions},
        "open_peers": item.wanted - len(columns),
    }


def _spread(columns: list[Column], dimension: str) -> int:
    """How many levels lie between the highest and the lowest label; 0 with fewer than two."""
    levels = [rating.level for c in columns if (rating := c.ratings.get(dimension)) and rating.level is not None]
    return max(levels) - min(levels) if levels else 0


def _columns(row: Assignment) -> list[Column]:
    """One's own review first, then the peers' by number."""
    numbers = dict(Reviewer.objects.filter(project=row.item.project_id).values_list("user", "number"))
    reviews = list(Review.objects.filter(item=row.item_id).prefetch_related("ratings", "marks"))
    reviews.sort(key=lambda r: (r.assignment_id != row.pk, numbers.get(r.user_id, 0)))
    return [_column(review, row, numbers) for review in reviews]


def _column(review: Review, row: Assignment, numbers: dict[int, int]) -> Column:
    marks: dict[str, list[Mark]] = {}
    for mark in review.marks.all():
        marks.setdefault(mark.dimension, []).append(mark)
    who = "you" if review.assignment_id == row.pk else f"reviewer {numbers.get(review.user_id or 0, '?')}"
    return Column(who, review, {r.dimension: r for r in review.ratings.all()}, marks)
