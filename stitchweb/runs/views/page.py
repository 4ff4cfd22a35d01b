"""The run page, its diff fragment, and the list of runs."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.cache import patch_vary_headers
from django.views.decorators.http import require_safe

from agents.engineers import reads_text
from agents.events import Event as EventContract
from agents.events import View
from agents.state import Status
from stitchweb.runs.access import may_read_questions, run_for, runs_for
from stitchweb.runs.blobs import RunBlobs
from stitchweb.runs.history import view_of
from stitchweb.runs.judged import judge_of
from stitchweb.runs.lines import QUIET
from stitchweb.runs.models import Event
from stitchweb.runs.panels import REFERENCE
from stitchweb.runs.permissions import STEER
from stitchweb.runs.render import MAX_LINES, RunRenderer
from stitchweb.runs.spread import WISHES
from stitchweb.runs.tables import rows_of
from stitchweb.teams.access import may
from stitchweb.teams.switch import in_chosen

PER_PAGE = 50


def loud_events(run_id: int, upto: int) -> list[EventContract]:
    """The newest events that the log shows, up to and with number `upto`, oldest first. One query."""
    rows = Event.objects.filter(run_id=run_id, seq__lte=upto).exclude(kind__in=QUIET).order_by("-seq")[:MAX_LINES]
    return [row.contract for row in rows][::-1]


def known_candidate(view: View, cid: str) -> str:
    """`cid` if the run has it. Http404 otherwise."""
    if cid != REFERENCE and cid not in view.candidates:
        raise Http404("This run has no such candidate.")
    return cid


def writers_read(view: View) -> bool:
    """Whether the run's Planner or Coder heeds what people write."""
    engineers = view.header.engineers if view.header else {}
    return reads_text(*(engineers.get(role, "offline") for role in ("planner", "coder")))


def wishes_of(request: HttpRequest) -> dict[str, str]:
    """What of a diff the reader asked for: `against` parent or reference, `file` a path; and what of a profile."""
    return {key: request.GET[key] for key in ("against", "file", *WISHES) if key in request.GET}


@require_safe
def run_page(request: HttpRequest, pk: int) -> HttpResponse:
    """Everything about a run, as of its newest event. `?candidate=c3` pins the panels to one candidate; to htmx, that
    candidate's profile alone where it asks for it."""
    run = run_for(request.user, pk)
    view = view_of(run.pk)
    cid = request.GET.get("candidate", "")
    if cid:
        known_candidate(view, cid)
    renderer = RunRenderer(run.pk, RunBlobs(run.pk))
    if cid and request.htmx.target == f"profile-{cid}":  # type: ignore[attr-defined]
        return _varying(HttpResponse(renderer.candidate_panel("profile", view, cid, **wishes_of(request))))
    judge = judge_of(run.team_id)
    context = renderer.page(view, loud_events(run.pk, view.seq), cid, **wishes_of(request))
    context |= {
        "run": run.pk,
        "program": run.revision.program,
        "team": run.team,
        "section": "runs",
        "may_steer": may(request.user, run.team_id, STEER),
        "reads_text": writers_read(view),
        "asks": may_read_questions(request.user, run),
        "judge": judge.name if judge else "",
    }
    return _varying(render(request, "runs/run.html", context))


def _varying(response: HttpResponse) -> HttpResponse:
    """One address, two answers: caches must not mix them."""
    patch_vary_headers(response, ["HX-Target"])
    return response


@require_safe
def diff_fragment(request: HttpRequest, pk: int, cid: str) -> HttpResponse:
    """The diff panel alone, against another side or of another file."""
    run = run_for(request.user, pk)
    view = view_of(run.pk)
    renderer = RunRenderer(run.pk, RunBlobs(run.pk))
    return HttpResponse(renderer.candidate_panel("diff", view, known_candidate(view, cid), **wishes_of(request)))


@require_safe
def run_list(request: HttpRequest) -> HttpResponse:
    """Runs of the person's teams, newest first. Pages by key, so a long history costs no more than a short one."""
    runs = in_chosen(request, runs_for(request.user))
    status, target = request.GET.get("status", ""), request.GET.get("target", "")
    if status == "active":
        runs = runs.active()
    elif status in set(map(str, Status)):
        runs = runs.filter(status=status)
    if target:
        runs = runs.filter(target=target)
    before = request.GET.get("before", "")
    if before.isdecimal():
        runs = runs.filter(pk__lt=int(before[:18]))
    rows = list(runs.with_waits().order_by("-pk")[: PER_PAGE + 1])
    context = {
        "rows": rows_of(rows[:PER_PAGE]),
        "more": rows[PER_PAGE - 1].pk if len(rows) > PER_PAGE else None,
        "statuses": [s.value for s in Status],
        "status": status,
        "target": target,
        "targets": list(runs_for(request.user).order_by().values_list("target", flat=True).distinct()[:50]),
        "section": "runs",
        "filtered": bool(status or target or before),
    }
    return render(request, "runs/list.html", context)
