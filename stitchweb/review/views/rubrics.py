"""The page of a rubric version: what every level means, with its example."""

from __future__ import annotations

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from stitchweb.review.access import rubric_for, rubrics_for
from stitchweb.review.rubric import shipped
from stitchweb.review.views.requests import SignedIn


@require_safe
def rubric(request: SignedIn, key: str, version: int) -> HttpResponse:
    """All dimensions, levels and hack words of one version; `?skill=feedback` reads the anchors for that skill."""
    row = rubric_for(request.user, key, version)
    skill = "feedback" if request.GET.get("skill") == "feedback" else "from_scratch"
    context = {
        "section": "review",
        "row": row,
        "rubric": row.parsed,
        "skill": skill,
        "versions": list(rubrics_for(request.user).filter(key=key).values_list("version", flat=True)),
    }
    return render(request, "review/rubric.html", context)


@require_safe
def newest(request: SignedIn) -> HttpResponse:
    """The newest version of the rubric that comes with the site."""
    contents = shipped()
    if not contents:
        raise Http404("No rubric comes with this site.")
    return rubric(request, contents[-1].key, contents[-1].version)
