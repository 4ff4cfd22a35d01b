"""Runs: listed, started, cancelled; what happened in them; their candidates and files."""

from typing import Annotated, Any

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from ninja import Path, Query, Router

from agents.events import CandidateView
from stitchweb.api.answers import MOST_PER_PAGE, PER_PAGE, fresh, made, page
from stitchweb.api.auth import READ, RUN
from stitchweb.api.once import once
from stitchweb.api.problems import FormRefused
from stitchweb.api.rest.programs import Cursor, Text, _plain
from stitchweb.api.rest.schemas import (
    BIG,
    CandidateOut,
    CandidateReports,
    EventPage,
    RunNew,
    RunOut,
    RunPage,
    State,
    candidate_out,
    candidate_reports,
    event_out,
    run_out,
)
from stitchweb.llm.access import models_of
from stitchweb.llm.models import ROLES
from stitchweb.programs.access import program_for
from stitchweb.programs.forms import form_problems
from stitchweb.programs.models import Revision
from stitchweb.runs import permissions
from stitchweb.runs.access import run_for, run_to_steer, runs_for
from stitchweb.runs.blobs import RunBlobs
from stitchweb.runs.dress import text_of
from stitchweb.runs.forms import OFFLINE, OptionsForm
from stitchweb.runs.history import PAGE, events_after, view_of
from stitchweb.runs.judged import judge_of
from stitchweb.runs.models import Run
from stitchweb.runs.services import control, start_run
from stitchweb.runs.views.take_home import bundle_of

router = Router(tags=["Runs"])
Id = Annotated[int, Path(description="of a run", ge=1, le=BIG)]
Cid = Annotated[str, Path(description="of a candidate, such as c1", max_length=20, pattern=r"^[-a-zA-Z0-9_]+$")]
OneProgram, OneState = Annotated[int, Query(ge=1, le=BIG)], Annotated[State, Query()]
Limit = Annotated[int, Query(ge=1, le=MOST_PER_PAGE)]
File = Annotated[str, Path(description="of a file in the candidate", max_length=200)]


@router.get("/runs", auth=READ, url_name="runs", response=RunPage, summary="Runs")
def runs(
    request: HttpRequest,
    team: Text = "",
    program: OneProgram = None,  # any, without it
    status: OneState = None,
    target: Text = "",
    cursor: Cursor = "",
    limit: Limit = PER_PAGE,
):
    """The runs of your teams, the newest first."""
    wanted: dict[str, Any] = {
        "team__slug": _plain(team),
        "revision__program": program,
        "status": status,
        "target": _plain(target),
    }
    rows = runs_for(request.user).filter(**{key: value for key, value in wanted.items() if value})
    shown, following = page(rows, cursor, limit)
    return RunPage(items=[run_out(row) for row in shown], next=following)


@router.post("/runs", auth=RUN, url_name="runs", response={201: RunOut}, summary="Start a run")
def start(request: HttpRequest, body: RunNew):
    """A run of a program's revision. 409 when you have as many at once as one person may have."""
    return once(request, lambda: _started(request, body))


def _started(request: HttpRequest, body: RunNew) -> HttpResponse:
    program = program_for(request.user, body.program, permissions.START)
    revisions = Revision.objects.filter(program=program).select_related("program__team").order_by("-number")
    revision = (revisions.filter(number=body.revision) if body.revision else revisions).first()
    if revision is None:
        raise Http404("This program has no such revision.")
    said = body.model_dump(exclude={"program", "revision"}, exclude_none=True)
    said |= {role: str(said.get(role, OFFLINE)) for role, _ in ROLES}
    judge = judge_of(program.team_id)
    form = OptionsForm(said, models_of(program.team), judge=judge.name if judge else "")
    if not form.is_valid():
        raise FormRefused(form_problems(form))
    run = start_run(request.user, revision, form.options())
    return made(run_out(run_for(request.user, run.pk)), reverse("api:run", args=[run.pk]))


def _tag(run: Run) -> str:
    return f"{run.pk}.{run.last_seq}.{run.status}"


@router.get("/runs/{int:pk}", auth=READ, url_name="run", response=RunOut, summary="A run")
def run(request: HttpRequest, pk: Id):
    """A run as it is now. Its ETag changes with every event."""
    row = run_for(request.user, pk)
    return fresh(request, _tag(row), lambda: run_out(row))


@router.post("/runs/{int:pk}/cancel", auth=RUN, url_name="cancel", response={202: RunOut}, summary="Cancel a run")
def cancel(request: HttpRequest, pk: Id):
    """Asks the run to end; what is under way stops within seconds. 409 when it has ended."""
    row = run_to_steer(request.user, pk)

    def work() -> HttpResponse:
        control(request.user, row, "cancel")
        return made(run_out(run_for(request.user, pk)), reverse("api:run", args=[pk]), 202)

    return once(request, work)


@router.get("/runs/{int:pk}/events", auth=READ, url_name="events", response=EventPage, summary="Events of a run")
def events(
    request: HttpRequest,
    pk: Id,
    after: Annotated[int, Query(ge=0, le=BIG, description="the number of the last event that you have")] = 0,
    limit: Annotated[int, Query(ge=1, le=PAGE)] = PAGE,
):
    """What happened in a run, in order, a page at a time. `watch` tells the same as it happens."""
    told = [event_out(event) for event in events_after(run_for(request.user, pk).pk, after, limit)]
    return EventPage(events=told, last=told[-1].seq if told else after)


@router.get(
    "/runs/{int:pk}/candidates", auth=READ, url_name="candidates", response=list[CandidateOut], summary="Candidates of a run"
)
def candidates(request: HttpRequest, pk: Id):
    """All candidates, in the order in which they came."""
    run_for(request.user, pk)
    return [candidate_out(found) for found in view_of(pk).candidates.values()]


def _candidate(request: HttpRequest, pk: int, cid: str) -> CandidateView:
    run_for(request.user, pk)
    found = view_of(pk).candidates.get(cid)
    if found is None:
        raise Http404("This run has no such candidate.")
    return found


@router.get(
    "/runs/{int:pk}/candidates/{slug:cid}", auth=READ, url_name="candidate", response=CandidateReports,
    summary="A candidate with its reports",
)  # fmt: skip
def candidate(request: HttpRequest, pk: Id, cid: Cid):
    """What was built, checked and timed of one candidate."""
    row = run_for(request.user, pk)
    return fresh(request, f"{cid}.{_tag(row)}", lambda: candidate_reports(_candidate(request, pk, cid)))


@router.get(
    "/runs/{int:pk}/candidates/{slug:cid}/files/{path:path}", auth=READ, url_name="file", response={200: None},
    summary="A file of a candidate",
    openapi_extra={"responses": {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}},
)  # fmt: skip
def file(request: HttpRequest, pk: Id, cid: Cid, path: File):
    """One file as text."""
    ref = _candidate(request, pk, cid).files.get(path)
    text = text_of(RunBlobs(pk), ref)
    if ref is None or text is None:
        raise Http404("This candidate has no such file.")
    return fresh(request, ref.sha256, lambda: HttpResponse(text, content_type="text/plain; charset=utf-8"))


@router.get(
    "/runs/{int:pk}/candidates/{slug:cid}/build.log", auth=READ, url_name="build-log", response={200: None},
    summary="A candidate's build log",
    openapi_extra={"responses": {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}},
)  # fmt: skip
def build_log(request: HttpRequest, pk: Id, cid: Cid):
    """What the compiler said, whole."""
    text = text_of(RunBlobs(pk), (_candidate(request, pk, cid).build or {}).get("log"))
    if text is None:
        raise Http404("There is no build log of this candidate.")
    return HttpResponse(text, content_type="text/plain; charset=utf-8")


@router.get(
    "/runs/{int:pk}/candidates/{slug:cid}/bundle.zip", auth=READ, url_name="bundle", response={200: None},
    summary="A candidate to take home",
    openapi_extra={"responses": {200: {"content": {"application/zip": {"schema": {}}}}}},
)  # fmt: skip
def bundle(request: HttpRequest, pk: Id, cid: Cid):
    """The candidate's files with a README, `verify.py` and `result.json`."""
    return bundle_of(run_for(request.user, pk), cid)
