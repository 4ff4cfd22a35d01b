"""What teams use, and what they may."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from stitchweb.operate import overview
from stitchweb.operate.forms import QuotaForm
from stitchweb.runs.models import Quota
from stitchweb.teams.models import Team


@require_safe
def teams(request: HttpRequest) -> HttpResponse:
    """A row per team: this month and the last thirty days. Four queries."""
    return render(request, "operate/teams.html", {"section": "operate", "part": "teams", **overview.teams()})


@require_http_methods(["GET", "HEAD", "POST"])
def quota(request: HttpRequest, slug: str) -> HttpResponse:
    """What one team may have under way and spend in a month."""
    of = get_object_or_404(Team, slug=slug)
    known = Quota.objects.filter(team=of).first() or Quota(team=of)
    form = QuotaForm(request.POST or None, instance=known)
    if request.method == "POST" and form.is_valid():
        form.save()
        messages.success(request, f"The quota of {of.name} is kept. It holds from the next run that is started.")
        return redirect("operate-teams")
    context = {"section": "operate", "part": "teams", "of": of, "form": form, "used": overview.use_of(of)}
    return render(request, "operate/quota.html", context, status=422 if form.errors else 200)
