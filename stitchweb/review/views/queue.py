"""Where a reviewer begins, and the way to the next item."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.db.models import Count, QuerySet
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from stitchweb.review.access import (
    assignments_for,
    counted,
    grants_of,
    parts_of,
    project_for,
    projects_for,
    reviewer_of,
    to_go_on,
    to_score,
)
from stitchweb.review.disputes import disputes_for
from stitchweb.review.models import Held
from stitchweb.review.permissions import MANAGE
from stitchweb.review.services.queue import QueueRefused, next_assignment
from stitchweb.review.views.items import page_alone
from stitchweb.review.views.requests import SignedIn
from stitchweb.teams.access import teams_for

RECENT = 12


@require_safe
def home(request: SignedIn) -> HttpResponse:
    """The person's queues, what they scored last, and the projects that they manage."""
    user = request.user
    managed = set(teams_for(user, MANAGE).values_list("pk", flat=True))
    scores = set(parts_of(user).values_list("project", flat=True))
    mine = assignments_for(user)
    done = _counts(mine.filter(state=Held.SUBMITTED).order_by(), "item__project")
    held = set(mine.filter(state=Held.RESERVED).values_list("item__project", flat=True))
    left = _counts(to_score(user).filter(project__in=scores).order_by(), "project")
    back = _counts(to_go_on(user).order_by(), "item__project")
    grants = set(grants_of(user).values_list("project", flat=True))
    rows = [
        {
            "project": project,
            "scores": project.pk in scores,
            "manages": project.team_id in managed,
            "settles": project.pk in grants,
            "disputes": disputes_for(user, project).count() if project.pk in grants else 0,
            "held": project.pk in held,
            "done": done.get(project.pk, 0),
            "left": left.get(project.pk, 0) + back.get(project.pk, 0),
            "share": project.taken_n / project.wanted_n if project.wanted_n else 0.0,
        }
        for project in counted(projects_for(user))
    ]
    context = {
        "section": "review",
        "rows": rows,
        "recent": list(mine.filter(state=Held.SUBMITTED).order_by("-ended_at")[:RECENT]),
        "may_manage": bool(managed),
    }
    return render(request, "review/home.html", context)


def _counts(rows: QuerySet[Any], by: str) -> dict[int, int]:
    return dict(rows.values_list(by).annotate(Count("pk")))


@require_POST
def next_item(request: SignedIn, pk: int) -> HttpResponse:
    """Take the next item of a project and go there; back to the queues, with a sentence, when there is none.

    A script (`HX-Request`) gets the item's page without its frame in the same answer, which saves the way there and back of a
    redirect. Content-Location is where it belongs; an answer without content says to go there. `ahead`: "take" has an item made
    ready that the person has not come for; its key says that they have, and that its page is there.
    """
    project, script = project_for(request.user, pk), bool(request.htmx)  # type: ignore[attr-defined]
    ahead = request.POST.get("ahead", "") if script else ""
    found, quiet = None, ahead == "take"
    try:
        found = next_assignment(request.user, project, ahead=quiet)
        if found is None and not quiet and reviewer_of(request.user, project):
            messages.success(
                request, f"{project.name}: nothing is left for you. Each item has its labels, or you have seen it."
            )
    except QueueRefused as refusal:
        if not quiet:
            messages.warning(request, str(refusal))
    place = reverse("review-item", args=[found.pk]) if found else reverse("review")
    if not script:
        return redirect(place)
    there = found is None or ahead == str(found.pk) or (quiet and found.draft_id)  # a draft may go on elsewhere meanwhile
    answer = (None if there or found is None else page_alone(request, found.pk)) or HttpResponse(status=204)
    answer.headers["Content-Location"] = place
    return answer
