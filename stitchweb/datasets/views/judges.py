"""Judges: their versions, their calibration, which one is the team's."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from agents.judges import gate as bounds
from agents.rubric import DIMENSIONS
from stitchweb.core.once import once
from stitchweb.datasets.access import judge_of, team_to_make, team_to_read
from stitchweb.datasets.models import Judge
from stitchweb.datasets.progress import Refused
from stitchweb.datasets.services.judging import ASKED, activate, request_judge
from stitchweb.datasets.services.scoring import order_soon
from stitchweb.datasets.services.work import cancel, stale
from stitchweb.datasets.views.releases import context, done
from stitchweb.llm.access import models_of
from stitchweb.review.views.requests import SignedIn, number


@require_http_methods(["GET", "HEAD", "POST"])
def judges(request: SignedIn, slug: str) -> HttpResponse:
    """All versions, newest first; POST makes another."""
    if request.method == "POST":
        team = team_to_make(request.user, slug)
        kind = request.POST.get("kind", "")
        recipe: dict[str, Any] = {}
        if kind == "model":
            chosen = models_of(team).filter(pk=number(request.POST.get("model", ""))).first()
            recipe = {"model": chosen.pk if chosen else None}
            recipe |= {"votes": _within(request, "votes", 5, 3, 9), "most": _within(request, "most", ASKED, 5, 1000)}

        def work() -> HttpResponse:
            try:
                row = request_judge(request.user, team, kind, recipe)
            except Refused as refusal:
                messages.error(request, str(refusal))
                return redirect("judges", slug)
            return redirect("judge", slug, row.pk)

        return once(request, work)
    team = team_to_read(request.user, slug)
    told = {"rows": Judge.objects.filter(team=team).defer("figures")[:50], "models": models_of(team), "asked": ASKED}
    return render(request, "datasets/judges.html", context(request, team, "judges") | told)


def _within(request: SignedIn, name: str, default: int, low: int, high: int) -> int:
    return max(low, min(high, number(request.POST.get(name, "")) or default))


@require_safe
def judge(request: SignedIn, slug: str, pk: int) -> HttpResponse:
    """How far it can be trusted, and what it may do."""
    team = team_to_read(request.user, slug)
    row = judge_of(team, pk)
    figures = row.figures
    told = {
        "row": row,
        "work": row,
        "stale": stale(row),
        "moving": row.open,
        "f": figures,
        "dimensions": [(key, key.replace("_", " ").capitalize(), figures["dimensions"][key]) for key in DIMENSIONS]
        if figures
        else [],
        "bounds": bounds,
        "levels": range(1, 6),
    }
    return render(request, "datasets/judge.html", context(request, team, "judges") | told)


@require_POST
def cancel_judge(request: SignedIn, slug: str, pk: int) -> HttpResponse:
    row = judge_of(team_to_make(request.user, slug), pk)
    cancel(row)
    messages.success(request, "It stops at the next step. Nothing is kept of it.")
    return redirect("judge", slug, pk)


@require_POST
def choose(request: SignedIn, slug: str, pk: int) -> HttpResponse:
    """Let this judge's scores be the team's, or no more."""
    team = team_to_make(request.user, slug)
    row = judge_of(team, pk)

    def work() -> str:
        if request.POST.get("active") == "0":
            activate(team, 0)
            return "The team has no judge now."
        activate(team, row.pk)
        order_soon(team.pk)
        if row.gate == "rank":
            return f"The {row} is the team's: it orders the queues of reviews. Its scores are shown to nobody."
        return f"The {row} is the team's: its scores stand beside runs, and on review pages after the reader's own label."

    return done(request, work, "judge", slug, pk)
