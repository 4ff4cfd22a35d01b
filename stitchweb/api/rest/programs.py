"""Programs and their revisions: listed, uploaded, read."""

from typing import Annotated

from django.db import transaction
from django.db.models import Max, Q
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from ninja import Path, Query, Router

from stitchweb.api.answers import MOST_PER_PAGE, PER_PAGE, fresh, made, page
from stitchweb.api.auth import READ, UPLOAD
from stitchweb.api.once import once
from stitchweb.api.problems import FormRefused
from stitchweb.api.rest.schemas import (
    BIG,
    ProgramNew,
    ProgramPage,
    ProgramWithRevisions,
    RevisionNew,
    RevisionOut,
    program_out,
    revision_out,
)
from stitchweb.core.limits import count
from stitchweb.programs import permissions
from stitchweb.programs.access import program_for, programs_for
from stitchweb.programs.forms import ProgramForm, form_problems
from stitchweb.programs.models import Program, Revision
from stitchweb.programs.services import Upload, add_revision, create_program
from stitchweb.runs.jobbook import create_analysis
from stitchweb.runs.views.upload import team_to_write

router = Router(tags=["Programs"])
Id = Annotated[int, Path(description="of a program", ge=1, le=BIG)]
Number = Annotated[int, Path(description="of a revision", ge=1, le=2**31 - 1)]
Cursor = Annotated[str, Query(max_length=15, pattern="^[0-9]*$", description="`next` of the page before")]
Limit = Annotated[int, Query(ge=1, le=MOST_PER_PAGE)]
Text = Annotated[str, Query(max_length=120)]


@router.get("/programs", auth=READ, url_name="programs", response=ProgramPage, summary="Programs")
def programs(request: HttpRequest, team: Text = "", q: Text = "", cursor: Cursor = "", limit: Limit = PER_PAGE):
    """The programs of your teams, the newest first. `team`: a slug; `q`: words of name or description."""
    rows = programs_for(request.user).annotate(newest=Max("revisions__number"))
    if team:
        rows = rows.filter(team__slug=_plain(team))
    if q:
        rows = rows.filter(Q(name__icontains=_plain(q)) | Q(description__icontains=_plain(q)))
    shown, following = page(rows, cursor, limit)
    return ProgramPage(items=[program_out(row, row.newest or 0) for row in shown], next=following)


def _plain(text: str) -> str:
    """No database compares with a null character."""
    return text.replace("\0", "\ufffd")


@router.post("/programs", auth=UPLOAD, url_name="programs", response={201: ProgramWithRevisions}, summary="Upload a program")
def upload(request: HttpRequest, body: ProgramNew):
    """A program with its first revision. 422 says which line is wrong, and why; nothing is stored then."""
    count("upload", request)
    return once(request, lambda: _uploaded(request, body))


def _uploaded(request: HttpRequest, body: ProgramNew) -> HttpResponse:
    said = {"name": body.name, "description": body.description, "tags": ", ".join(body.tags)[:400], "entry": body.entry}
    form = ProgramForm(said)
    if not form.is_valid():
        raise FormRefused(form_problems(form))
    text = body.text.replace("\r\n", "\n").removeprefix("\ufeff")
    told = form.cleaned_data
    upload = Upload(
        text, _filename(body.filename), told["entry"].strip(), told["name"].strip(), told["description"].strip(), form.tag_words
    )
    with transaction.atomic():
        revision = create_program(request.user, team_to_write(request.user, body.team.replace("\0", "")), upload)
        if body.analyse:
            create_analysis(revision)
    return made(_whole(revision.program), reverse("api:program", args=[revision.program_id]))


def _filename(name: str) -> str:
    """The last part of a path, without what no screen shows."""
    return "".join(char for char in name.replace("\\", "/").rsplit("/", 1)[-1] if char.isprintable())


def _whole(program: Program) -> ProgramWithRevisions:
    rows = list(Revision.objects.filter(program=program).order_by("-number")[:100])
    found = program_out(program, rows[0].number if rows else 0)
    return ProgramWithRevisions(**found.model_dump(), revisions=[revision_out(row) for row in rows])


@router.get("/programs/{int:pk}", auth=READ, url_name="program", response=ProgramWithRevisions, summary="A program")
def program(request: HttpRequest, pk: Id):
    """A program with its revisions, the newest first."""
    return _whole(program_for(request.user, pk))


@router.post(
    "/programs/{int:pk}/revisions", auth=UPLOAD, url_name="revisions", response={201: RevisionOut},
    summary="Upload a revision",
)  # fmt: skip
def add(request: HttpRequest, pk: Id, body: RevisionNew):
    """The next text of a program. A text that the program has already is not stored again: the answer is that revision."""
    count("upload", request)
    found = program_for(request.user, pk, permissions.UPLOAD)

    def work() -> HttpResponse:
        text = body.text.replace("\r\n", "\n").removeprefix("\ufeff")
        revision = add_revision(request.user, found, text, body.entry.strip())
        return made(revision_out(revision), reverse("api:source", args=[pk, revision.number]))

    return once(request, work)


@router.get(
    "/programs/{int:pk}/revisions/{int:number}/source", auth=READ, url_name="source", response={200: None},
    summary="The text of a revision",
    openapi_extra={"responses": {200: {"content": {"text/x-python": {"schema": {"type": "string"}}}}}},
)  # fmt: skip
def source(request: HttpRequest, pk: Id, number: Number):
    """The Python text as it was uploaded."""
    row = Revision.objects.filter(program=program_for(request.user, pk), number=number).first()
    if row is None:
        raise Http404("This program has no such revision.")
    return fresh(request, row.sha256, lambda: HttpResponse(row.text, content_type="text/x-python; charset=utf-8"))
