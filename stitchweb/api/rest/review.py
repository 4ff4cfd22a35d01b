"""Review projects: what comes in and what goes out. Scoring itself stays on its pages, where it is blind."""

from collections.abc import Iterator
from typing import Annotated

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from ninja import Path, Router

from stitchweb.api.answers import made
from stitchweb.api.auth import REVIEW
from stitchweb.api.once import once
from stitchweb.api.rest.schemas import BIG, Came, CandidatesNew, ProjectOut, page_of
from stitchweb.review.access import project_to_manage, project_with_labels, projects_for
from stitchweb.review.export import label_lines, probe_lines
from stitchweb.review.models import Project
from stitchweb.review.services.intake import bring_in, checked
from stitchweb.review.services.seen import note_all

router = Router(tags=["Review"])
Id = Annotated[int, Path(description="of a review project", ge=1, le=BIG)]
LINES = {"responses": {200: {"content": {"application/jsonl": {"schema": {"type": "string"}}}}}}


def _out(row: Project) -> ProjectOut:
    return ProjectOut(
        id=row.pk, name=row.name, team=row.team.slug, rubric=str(row.rubric), state=row.state, overlap=row.overlap,
        page=page_of("review-project", row.pk),
    )  # fmt: skip


@router.get("/review/projects", auth=REVIEW, url_name="projects", response=list[ProjectOut], summary="Review projects")
def projects(request: HttpRequest):
    """The projects that you score in, settle or manage, the newest first."""
    return [_out(row) for row in projects_for(request.user)]


@router.post(
    "/review/projects/{int:pk}/candidates",
    auth=REVIEW,
    url_name="bring-in",
    response={201: Came},
    summary="Bring candidates in",
)
def bring(request: HttpRequest, pk: Id, body: CandidatesNew):
    """Candidates from elsewhere: `name`, `reference`, `files` (path to text), and at wish `parent`, `skill`, `target`, `task`,
    `feedback`, `engineer`, `origin`. All or none; one whose content is in the queue already is left out."""
    project = project_to_manage(request.user, pk)

    def work() -> HttpResponse:
        rows = [checked(row, f"candidate {number}") for number, row in enumerate(body.candidates, 1)]
        came = len(bring_in(request.user, project, rows))
        return made(Came(sent=len(rows), came=came), reverse("review-project", args=[pk]))

    return once(request, work)


@router.get(
    "/review/projects/{int:pk}/labels", auth=REVIEW, url_name="labels", response={200: None}, summary="Labels",
    openapi_extra=LINES,
)  # fmt: skip
def labels(request: HttpRequest, pk: Id):
    """Every label as it was submitted, a line of JSON each, without anybody's name. For those who manage the project, and not
    while its candidates may still come to them for scoring."""
    return _lines(request, pk, label_lines)


@router.get(
    "/review/projects/{int:pk}/probes", auth=REVIEW, url_name="probes", response={200: None}, summary="Probes",
    openapi_extra=LINES,
)  # fmt: skip
def probes(request: HttpRequest, pk: Id):
    """References with other inputs that told something about a candidate, a line of JSON each."""
    return _lines(request, pk, probe_lines)


def _lines(request: HttpRequest, pk: int, lines) -> HttpResponse:  # type: ignore[no-untyped-def]
    project = project_with_labels(request.user, pk)
    note_all(request.user, project)
    found: Iterator[str] = lines(project)
    return HttpResponse("".join(f"{line}\n" for line in found), content_type="application/jsonl; charset=utf-8")
