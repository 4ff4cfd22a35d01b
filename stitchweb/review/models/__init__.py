"""Tables of reviews: `base` up to a submitted label, `after` what follows it."""

from stitchweb.review.models.after import Adjudication, Adjudicator, Change, Gold, Hunch, Probe, Remark, Revised, Seen, Typed
from stitchweb.review.models.base import (
    HACK_LEVELS,
    HACK_TYPES,
    Assignment,
    AssignmentQuerySet,
    Draft,
    Held,
    Item,
    ItemQuerySet,
    Mark,
    Project,
    ProjectState,
    Rating,
    Review,
    Reviewer,
    Rubric,
)

__all__ = [
    "HACK_LEVELS", "HACK_TYPES", "Adjudication", "Adjudicator", "Assignment", "AssignmentQuerySet", "Change", "Draft", "Gold",
    "Held", "Hunch", "Item", "ItemQuerySet", "Mark", "Probe", "Project", "ProjectState", "Rating", "Remark", "Review",
    "Reviewer", "Revised", "Rubric", "Seen", "Typed",
]  # fmt: skip
