"""What there is to do with reviews, and which page does it."""

from __future__ import annotations

from stitchweb.core.permissions import MANAGERS, REVIEWERS, SIGNED_IN, Action, Route, form, get, post
from stitchweb.teams.permissions import USE_SITE

READ_RUBRICS = Action("review.read-rubrics", "Read the rubrics", SIGNED_IN)
TAKE_PART = Action(
    "review.take-part", "See a review project and what one may read of it", REVIEWERS,
    "Who manages its team sees it; others where they score or settle",
)  # fmt: skip
SCORE = Action(
    "review.score", "Score a candidate, with its draft, remarks and hunches", REVIEWERS, "Handed to them by the queue"
)
SETTLE = Action(
    "review.settle", "Give a final label", REVIEWERS,
    "With the project's grant, and neither scored, owned nor steered by them",
)  # fmt: skip
READ_LABELS = Action(
    "review.read-labels", "Read who scored what", REVIEWERS,
    "Managers and adjudicators, once nothing of it can come to them for scoring",
)  # fmt: skip
MANAGE = Action("review.manage", "Make and change projects, choose candidates, people and gold", MANAGERS)
EXPORT = Action("review.export", "Read agreement and trail, download labels and probes", MANAGERS,
                "Not while candidates of the project may still come to them for scoring")  # fmt: skip

ROUTES = {
    "review": get(USE_SITE),
    "review-new": Route(get=USE_SITE, post=MANAGE),
    "review-project": get(TAKE_PART),
    "review-agreement": get(EXPORT),
    "review-labels": get(EXPORT),
    "review-labels-csv": get(EXPORT),
    "review-probes": get(EXPORT),
    "review-data": get(MANAGE),
    "review-import": post(MANAGE),
    "review-bring-gold": post(MANAGE),
    "review-change-rubric": post(MANAGE),
    "review-trail": get(EXPORT),
    "review-calibration": get(TAKE_PART),
    "review-clear": post(MANAGE),
    "review-next": post(TAKE_PART),
    "review-change": post(MANAGE),
    "review-fill": post(MANAGE),
    "review-people": post(MANAGE),
    "review-gold": post(MANAGE),
    "review-adjudicators": post(MANAGE),
    "review-disagreement": get(TAKE_PART),
    "review-next-dispute": post(TAKE_PART),
    "review-labels-of": Route(get=READ_LABELS, post=SETTLE),
    "review-final-draft": post(SETTLE),
    "review-labels-code": get(READ_LABELS),
    "review-remark-reader": post(READ_LABELS),
    "review-item": form(SCORE),
    "review-hunch": form(SCORE),
    "review-hunch-list": get(SCORE),
    "review-attach-hunch": post(SCORE),
    "review-keep-hunch": post(TAKE_PART),
    "review-remark": post(SCORE),
    "review-revise-draft": post(SCORE),
    "review-revise": post(SCORE),
    "review-code": get(SCORE),
    "review-profile": get(SCORE),
    "rubric": get(READ_RUBRICS),
    "rubric-version": get(READ_RUBRICS),
}
