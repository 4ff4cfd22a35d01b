"""The live stream over plain HTTP: what a page that cannot hold a socket asks for."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from agents.events import fold_all
from stitchweb.runs.access import run_for
from stitchweb.runs.blobs import RunBlobs
from stitchweb.runs.history import events_after, view_of
from stitchweb.runs.render import fragments


@require_safe
def events(request: HttpRequest, pk: int) -> HttpResponse:
    """`?after=N`: fragments that lead on from event N, a page of events at most. X-Seq: the last one told; 204: nothing new."""
    run = run_for(request.user, pk)
    text = request.GET.get("after", "0")
    after = int(text) if text.isdecimal() and len(text) < 16 else 0
    told = events_after(run.pk, after)
    if not told:
        return HttpResponse(status=204, headers={"X-Seq": str(after)})
    before = view_of(run.pk, upto=after)
    html = fragments(run.pk, before, fold_all(before, told), told, RunBlobs(run.pk))
    return HttpResponse(html, headers={"X-Seq": str(told[-1].seq)})
