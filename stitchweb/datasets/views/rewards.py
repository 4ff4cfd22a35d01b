"""The reward: every parameter a control, and what it would change."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from agents.reward import PRESETS
from stitchweb.datasets.access import team_to_make, team_to_read
from stitchweb.datasets.forms import controls, read
from stitchweb.datasets.ranking import ranking
from stitchweb.datasets.services.rewards import preset_of, request_rewards
from stitchweb.datasets.views.releases import context
from stitchweb.review.views.requests import SignedIn


@require_http_methods(["GET", "HEAD", "POST"])
def rewards(request: SignedIn, slug: str) -> HttpResponse:
    """All stored candidates under the parameters in the address; POST stores the rewards by them."""
    post = request.method == "POST"
    team = team_to_make(request.user, slug) if post else team_to_read(request.user, slug)
    stored = preset_of(team)
    preset, by, problem = read(request.POST if post else request.GET, stored)
    if post and not problem:
        request_rewards(team, preset, by)
        messages.success(request, "The agent worker stores the rewards by these parameters. Reload in a moment.")
        return redirect("rewards", slug)
    told = controls(by) | {
        "preset": preset,
        "presets": PRESETS.items(),
        "stored": stored[0],
        "is_stored": by == stored[1],
        "by": by,
        "problem": problem,
        "ranking": ranking(team, by),
    }
    return render(request, "datasets/rewards.html", context(request, team, "rewards") | told, status=422 if problem else 200)
