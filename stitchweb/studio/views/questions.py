"""What a run asked its models, and what they answered: for the run's owner, and for those who manage its team."""

from __future__ import annotations

import json
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from stitchweb.runs.access import may_read_questions, run_for
from stitchweb.runs.blobs import RunBlobs
from stitchweb.runs.dress import text_of
from stitchweb.runs.models import Event, Run
from stitchweb.teams.access import Person

PER_PAGE = 100


def _run(user: Person, pk: int) -> Run:
    run = run_for(user, pk)
    if not may_read_questions(user, run):
        raise PermissionDenied(
            "Questions and answers of a run are kept for whoever started it, and for the team's maintainers and owners."
        )
    return run


def _context(run: Run) -> dict[str, Any]:
    return {"section": "runs", "run": run.pk, "name": run.name, "team": run.team, "program": run.revision.program}


@require_safe
def questions(request: HttpRequest, pk: int) -> HttpResponse:
    """All questions of a run, the newest first; pages by key."""
    run = _run(request.user, pk)
    before = request.GET.get("before", "")
    told = Event.objects.filter(run=run, kind="model.asked")
    if before.isdecimal() and len(before) < 16:
        told = told.filter(seq__lt=int(before))
    rows = list(told.order_by("-seq")[: PER_PAGE + 1])
    shown = [{"seq": e.seq, "at": e.at, **e.payload} for e in rows[:PER_PAGE]]
    more = rows[PER_PAGE - 1].seq if len(rows) > PER_PAGE else None
    return render(request, "studio/questions.html", _context(run) | {"rows": shown, "more": more, "later": bool(before)})


@require_safe
def question(request: HttpRequest, pk: int, seq: int) -> HttpResponse:
    """One question with its answer, word for word but for what looks like a key."""
    run = _run(request.user, pk)
    event = Event.objects.filter(run=run, kind="model.asked", seq=seq).first()
    if event is None:
        raise Http404("This run asked no such question.")
    text = text_of(RunBlobs(run.pk), event.payload.get("blob"))
    record = json.loads(text) if text else None
    return render(request, "studio/question.html", _context(run) | {"asked": event.payload, "seq": seq, "record": record})
