"""What the team's judge says of a candidate: beside its run, beside another one, or alone."""

from __future__ import annotations

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from stitchweb.datasets.judged import judged_of
from stitchweb.review.views.requests import SignedIn
from stitchweb.runs.access import run_for
from stitchweb.runs.history import view_of
from stitchweb.runs.panels import focus_of


@never_cache
@require_safe
def run_judged(request: SignedIn, pk: int) -> HttpResponse:
    """`?candidate=c3`, else of the one that the run's page is about; to htmx the panel alone. Who may not see the run, or not
    yet, is refused as on its page. It writes where the person may be asked to label such a candidate: see `judged_of`."""
    run = run_for(request.user, pk)
    view = view_of(run.pk)
    cid = request.GET.get("candidate", "") or focus_of(view)
    told = judged_of(request.user, run, view, cid)
    alone = bool(request.htmx)  # type: ignore[attr-defined]
    if told is None and not alone:
        raise Http404("This run has no such candidate, or its team has no judge.")
    context = {"section": "runs", "run": run, "cid": cid, "told": told, "slot": request.GET.get("slot", "")[:8]}
    return render(request, "datasets/judged_panel.html" if alone else "datasets/judged.html", context)
