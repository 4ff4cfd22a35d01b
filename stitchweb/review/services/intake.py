"""Candidates from elsewhere: each becomes a program, a run that says where it came from, and an item of the queue.

Nothing of them is built or measured here: their facts are empty, and the review page says so.
"""

from __future__ import annotations

import time
from typing import Any

from django.db import transaction
from pydantic import Field, ValidationError

from agents.events import CandidateView, created, storable
from agents.events import Event as EventContract
from agents.state import BlobStore, Options, State, Status, Todo
from gpu_runner.contracts import PROTOCOLS, CandidateFiles, Contract, Source, digest
from stitchweb.programs.models import Revision
from stitchweb.programs.services import Upload, UploadRefused, create_program
from stitchweb.review.models import Item, Project
from stitchweb.review.permissions import MANAGE
from stitchweb.review.rubric import Skill
from stitchweb.review.services.audit import record
from stitchweb.review.services.projects import MAX_ITEMS, ProjectRefused, new_item
from stitchweb.runs.blobs import RunBlobs
from stitchweb.runs.models import Event, Run, RunState
from stitchweb.teams.access import require
from stitchweb.teams.models import Team, User

MAX_ROWS = 1000  # of one file


class Brought(Contract):
    """One candidate from elsewhere. `files`: path to text, as a candidate has them; `parent`: those of the program that the
    feedback was given on; `feedback`: its points, or the constraints of the task; `origin`: where it comes from."""

    name: str = Field(min_length=1, max_length=120)
    reference: str
    files: dict[str, str]
    parent: dict[str, str] = {}
    skill: Skill = "from_scratch"
    target: str = Field("cpu", pattern=r"^(?:cpu|sm_\d{2,3})$")
    task: str = Field("", max_length=400)
    feedback: tuple[str, ...] = ()
    engineer: str = Field("", max_length=80)
    origin: str = Field("", max_length=200)

    @property
    def sha256(self) -> str:
        """What is scored, as `projects.content_sha256` counts it."""
        files = {path: digest(text.encode()) for path, text in self.files.items()}
        return digest({"reference": digest(self.reference.encode()), "files": files})


def checked(row: dict[str, Any], place: str) -> Brought:
    """A row of a file. ProjectRefused names the row, what is wrong and, where it can, the field."""
    try:
        brought = Brought.model_validate(row)
        CandidateFiles(files=brought.files)
        if brought.parent:
            CandidateFiles(files=brought.parent)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise ProjectRefused(
            f"{place}: {field}: {first['msg'].removeprefix('Value error, ')}. Nothing was brought in."
        ) from error
    try:
        brought.model_dump_json()
    except ValueError as error:
        raise ProjectRefused(
            f"{place}: half a character stands in it: \\ud800 to \\udfff come in pairs only. Nothing was brought in."
        ) from error
    if brought.skill == "feedback" and not brought.feedback:
        raise ProjectRefused(
            f"{place}: feedback: a feedback-driven candidate needs the feedback it answers. Nothing was brought in."
        )
    return brought


@transaction.atomic
def bring_in(
    user: User, project: Project, rows: list[Brought], *, why: str = "brought in from elsewhere", mine: bool = True
) -> list[Item]:
    """Put candidates from elsewhere into the queue, those left out whose content is in it. All or nothing.

    `mine`: the runs belong to the person, who then does not score them.

    ProjectRefused for too many, or a reference that cannot be a program. A program that the team has is used again.
    """
    require(user, project.team_id, MANAGE)
    if len(rows) > MAX_ROWS:
        raise ProjectRefused(f"A file brings in {MAX_ROWS} candidates at most, this one has {len(rows)}. Cut it into parts.")
    project = Project.objects.select_for_update().get(pk=project.pk)
    known = set(Item.objects.filter(project=project).values_list("sha256", flat=True))
    if len(known) + len(rows) > MAX_ITEMS:
        raise ProjectRefused(f"A queue takes {MAX_ITEMS} items at most.")
    items = []
    for row in rows:
        if row.sha256 in known:
            continue
        known.add(row.sha256)
        run = _run(user, project.team, row, mine)
        items.append(new_item(project, run, "c1", row.sha256, row.skill, why, "c0" if row.parent else ""))
    Item.objects.bulk_create(items)
    record(user, project, "import", new={"rows": len(rows), "came": len(items)})
    return items


def _revision(user: User, team: Team, row: Brought) -> Revision:
    found = Revision.objects.filter(program__team=team, sha256=Source(text=row.reference, entry="").sha256).first()
    if found:
        return found
    try:
        return create_program(user, team, Upload(row.reference, f"{row.name}.py", name=row.name, tags=("imported",)))
    except UploadRefused as refusal:
        raise ProjectRefused(f"{row.name}: its reference is refused: {refusal}. Nothing was brought in.") from refusal


def _run(user: User, team: Team, row: Brought, mine: bool) -> Run:
    """A run that ended when it was brought in, and holds this one candidate, its parent aside."""
    revision = _revision(user, team, row)
    options = Options(protocol=PROTOCOLS["strict"], target=row.target)
    came = f"Brought in{f' from {row.origin}' if row.origin else ''}; nothing of it was measured here."
    run = Run.objects.create(
        team=team, revision=revision, owner=user if mine else None, name=row.name, target=row.target, status="finished",
        engineer=row.engineer or "elsewhere", protocol=options.protocol.id, candidates=1, sentence=came,
    )  # fmt: skip
    blobs = RunBlobs(run.pk)
    source = blobs.put(row.reference.encode())
    state = State(run=str(run.pk), name=row.name, source=source, options=options)
    told = created(state, at=time.time())
    told[0] = told[0].model_copy(
        update={"payload": told[0].payload | {"engineers": {"coder": row.engineer} if row.engineer else {}}}
    )
    said: list[tuple[str, dict[str, Any]]] = []
    if row.task or row.feedback:
        todo = Todo(id="t1", kind="other", title=row.task or "What was asked", constraints=row.feedback)
        said.append(("plan.made", {"version": 1, "approved": True, "todos": [todo.model_dump(mode="json")]}))
    if row.parent:
        said.append(("candidate.changed", _candidate("c0", None, row, row.parent, blobs)))
    said.append(("candidate.changed", _candidate("c1", "c0" if row.parent else None, row, row.files, blobs)))
    said.append(("run.status", {"status": "finished", "step": 0}))
    for kind, payload in said:
        told.append(EventContract(seq=len(told) + 1, kind=kind, who="system", at=told[-1].at, payload=payload))  # type: ignore[arg-type]
    Event.objects.bulk_create(
        Event(run=run, seq=e.seq, kind=e.kind, who=e.who, at=e.at, payload=storable(e.payload)) for e in told
    )
    Run.objects.filter(pk=run.pk).update(last_seq=len(told))
    RunState.objects.create(
        run=run, state=storable(state.model_copy(update={"status": Status.FINISHED}).model_dump(mode="json"))
    )
    return run


def _candidate(name: str, parent: str | None, row: Brought, files: dict[str, str], blobs: BlobStore) -> dict[str, Any]:
    kept = {path: blobs.put(text.encode()) for path, text in files.items()}
    view = CandidateView(
        id=name, parent=parent, todo="t1" if row.task or row.feedback else None, title=row.task or row.name,
        skill=row.skill if name == "c1" else "from_scratch", files=kept, status="done",
    )  # fmt: skip
    return view.model_dump(mode="json")
