"""What the site's machines are doing: queues and runners, for people who wonder why a run waits."""

from __future__ import annotations

from django.db.models import Count, Min, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from stitchweb.runs import runners
from stitchweb.runs.access import runs_for
from stitchweb.runs.models import Job, JobState


@require_safe
def status(request: HttpRequest) -> HttpResponse:
    """Open jobs per queue, runners heard of within a day, active runs. Four queries, whatever the number of jobs."""
    queues = (
        Job.objects.filter(state__in=[JobState.QUEUED, JobState.CLAIMED])
        .values("queue")
        .annotate(
            waiting=Count("pk", filter=Q(state=JobState.QUEUED)),
            working=Count("pk", filter=Q(state=JobState.CLAIMED)),
            oldest=Min("created_at", filter=Q(state=JobState.QUEUED)),
        )
        .order_by("queue")
    )
    context = {
        "section": "status",
        "queues": list(queues),
        "runners": runners.recent(),
        "active": list(runs_for(request.user).active().with_waits().order_by("pk")[:50]),
    }
    return render(request, "runs/status.html", context)
