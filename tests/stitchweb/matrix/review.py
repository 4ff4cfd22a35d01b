"""Reviews: the reviewer scores, the maintainer settles, the owner manages."""

from __future__ import annotations

from tests.stitchweb.matrix import Visit, Visits, whom
from tests.stitchweb.matrix.stage import Stage


def visits(stage: Stage) -> Visits:
    project = {"pk": stage.project.pk}
    item = project | {"item_pk": stage.scored.pk}
    mine = {"pk": stage.assignment.pk}
    reviewer, settles, manage = whom("reviewer"), whom("maintainer"), whom("maintainer", "owner")
    part = reviewer | manage
    labels = Visit(project, meets=manage)
    new = {
        "team": stage.team.pk,
        "rubric": stage.project.rubric_id,
        "name": "Another",
        "overlap": 1,
        "coverage": 9,
        "minutes": 9,
    }
    scored = Visit(mine, meets=reviewer)
    return {
        "review": Visit(),
        "review-new": (
            Visit(method="GET", meets=manage | whom("outsider")),  # who owns another team makes a project there
            Visit(method="POST", data=new, refused=(422,)),
        ),
        "review-project": Visit(project, meets=part),
        "review-agreement": labels,
        "review-labels": labels,
        "review-labels-csv": labels,
        "review-probes": labels,
        "review-data": Visit(project),
        "review-import": Visit(project),
        "review-bring-gold": Visit(project),
        "review-change-rubric": Visit(project),
        "review-trail": labels,
        "review-calibration": Visit(project, meets=part),
        "review-clear": Visit(project | {"number": 1}),
        "review-next": Visit(project, meets=reviewer),
        "review-change": Visit(project),
        "review-fill": Visit(project),
        "review-people": Visit(project),
        "review-gold": Visit(item),
        "review-adjudicators": Visit(project),
        "review-disagreement": Visit(project, meets=part),
        "review-next-dispute": Visit(project, meets=settles),
        "review-labels-of": (
            Visit(item, meets=manage, method="GET"),
            Visit(item, meets=settles, method="POST"),
        ),
        "review-final-draft": Visit(item, meets=settles),
        "review-labels-code": Visit(item, meets=manage),
        "review-remark-reader": Visit(item, meets=manage, data={"text": "Why?"}),
        "review-item": scored,
        "review-hunch": scored,
        "review-hunch-list": scored,
        "review-attach-hunch": Visit(mine | {"number": 1}, meets=reviewer),
        "review-keep-hunch": Visit({"pk": stage.hunch.pk}, meets=manage),
        "review-remark": scored,
        "review-revise-draft": scored,
        "review-revise": scored,
        "review-code": scored,
        "review-profile": scored,
        "rubric": Visit(),
        "rubric-version": Visit({"key": "kernels", "version": 1}),
    }
