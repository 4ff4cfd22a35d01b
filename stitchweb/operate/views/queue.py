"""What waits, for what, and how long."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from stitchweb.operate import overview


@require_safe
def queue(request: HttpRequest) -> HttpResponse:
    """Open jobs by queue, the oldest first, and runs that wait for an agent worker. Five queries."""
    return render(request, "operate/queue.html", {"section": "operate", "part": "queue", **overview.queue()})
