"""What the site's machines are doing: queues and runners, for people who wonder why a run waits."""

from __future__ import annotations

from datetime import timedelta

from django.contrib.auth.decorators import login_required
from django.db.models import Avg, Count, DurationField, ExpressionWrapper, F, Max, Min, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from stitchweb.runs.access import runs_for
from stitchweb.runs.models import Job, JobState

SEEN = timedelta(hours=24)


@login_required
@require_safe
def status(request: HttpRequest) -> HttpResponse:
    """Open jobs per queue, runners heard of within a day, active runs. Four queries, whatever the number of jobs."""
    now = timezone.now()
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
    took = ExpressionWrapper(F("done_at") - F("claimed_at"), output_field=DurationField())
    runners = (
        Job.objects.filter(claimed_at__gte=now - SEEN)
        .exclude(worker="")
        .values("worker", "queue")
        .annotate(
            done=Count("pk", filter=Q(state=JobState.DONE)),
            failed=Count("pk", filter=Q(state=JobState.FAILED)),
            working=Count("pk", filter=Q(state=JobState.CLAIMED)),
            seen=Max("claimed_at"),
            mean=Avg(took, filter=Q(state=JobState.DONE)),
        )
        .order_by("queue", "worker")
    )
    context = {
        "section": "status",
        "queues": list(queues),
        "runners": [r | {"mean_s": r["mean"].total_seconds() if r["mean"] else None} for r in runners],
        "active": list(runs_for(request.user).active().order_by("pk")[:50]),
    }
    return render(request, "runs/status.html", context)
