"""Tables of reviews: `base` up to a submitted label, `after` what follows it."""

from stitchweb.review.models.after import Adjudication, Adjudicator, Change, Gold, Hunch, Probe, Remark, Revised, Seen, Typed
from stitchweb.review.models.base import (
    BY_CHANCE,
    HACK_LEVELS,
    HACK_TYPES,
    RANDOM_SHARE,
    Assignment,
    AssignmentQuerySet,
    Draft,
    Held,
    Item,
    ItemQuerySet,
    Mark,
    Placed,
    Project,
    ProjectState,
    Rating,
    Review,
    Reviewer,
    Rubric,
)

__all__ = [
    "BY_CHANCE", "HACK_LEVELS", "HACK_TYPES", "RANDOM_SHARE", "Adjudication", "Adjudicator", "Assignment",
    "AssignmentQuerySet", "Change", "Draft", "Gold", "Held", "Hunch", "Item", "ItemQuerySet", "Mark", "Placed", "Probe",
    "Project", "ProjectState", "Rating", "Remark", "Review", "Reviewer", "Revised", "Rubric", "Seen", "Typed",
]  # fmt: skip
