"""A headless run's folder becomes a run of the site: same events, same blobs, same page."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from django.db import transaction
from pydantic import ValidationError

from agents.blobs import FolderBlobs
from agents.events import Event as EventContract
from agents.folder import EVENTS_FILE, STATE_FILE
from agents.state import State
from gpu_runner.contracts import BlobRef, digest
from stitchweb.programs.services import Upload, UploadRefused, create_program
from stitchweb.runs import history
from stitchweb.runs.blobs import RunBlobs
from stitchweb.runs.models import Event, Run
from stitchweb.runs.services import engineer_name
from stitchweb.runs.summary import store
from stitchweb.teams.models import Team, User


class CannotImport(Exception):
    """The folder is no whole run. The message says what is wrong with it."""


@transaction.atomic
def import_folder(folder: Path, team: Team, owner: User) -> Run:
    """The run of a folder that `python -m agents optimize --out` left, all or nothing. CannotImport with the reason."""
    state, told = _state(folder), _events(folder)
    blobs = FolderBlobs(folder / "blobs")
    text = _source(state, blobs)
    try:
        revision = create_program(owner, team, Upload(text=text, filename=state.name, entry=state.entry, name=state.name))
    except UploadRefused as refusal:
        raise CannotImport(f"Its program is refused: {refusal}") from refusal
    options = state.options
    run = Run.objects.create(
        team=team, revision=revision, owner=owner, name=revision.program.name, target=options.target,
        engineer=engineer_name(options), protocol=options.protocol.id, created_at=datetime.fromtimestamp(told[0].at, UTC),
    )  # fmt: skip
    own = RunBlobs(run.pk)
    for file in sorted((folder / "blobs").glob("*/*")):
        data = file.read_bytes()
        if digest(data) != file.name:
            raise CannotImport(f"{file} does not hold what its name says; the folder is damaged.")
        own.put(data)
    store(run, state.model_copy(update={"run": str(run.pk)}))
    run.last_seq = told[-1].seq
    run.changed_at = datetime.fromtimestamp(told[-1].at, UTC)
    run.save()
    Event.objects.bulk_create(_row(run, event) for event in told)
    history.refresh_snapshot(run)
    return run


def _row(run: Run, event: EventContract) -> Event:
    payload = event.payload | {"run": str(run.pk)} if event.kind == "run.created" else event.payload
    return Event(run=run, seq=event.seq, kind=event.kind, who=event.who[:120], at=event.at, payload=payload)


def _state(folder: Path) -> State:
    file = folder / STATE_FILE
    try:
        state = State.model_validate_json(file.read_bytes())
    except OSError as error:
        raise CannotImport(f"{file} cannot be read: {error.strerror}. Give the folder that --out named.") from error
    except ValidationError as error:
        raise CannotImport(f"{file} is not a state of this version ({error.error_count()} fields differ).") from error
    if not state.status.ended:
        raise CannotImport(f"The run in {folder} has not ended; it is {state.status.value}.")
    return state


def _events(folder: Path) -> list[EventContract]:
    file = folder / EVENTS_FILE
    try:
        told = [EventContract.model_validate_json(line) for line in file.read_text().splitlines()]
    except OSError as error:
        raise CannotImport(f"{file} cannot be read: {error.strerror}.") from error
    except (ValidationError, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise CannotImport(f"{file} holds something else than events: {error}") from error
    if [event.seq for event in told] != list(range(1, len(told) + 1)) or not told:
        raise CannotImport(f"{file} has a gap: its events must be numbered 1, 2, 3 and so on.")
    return told


def _source(state: State, blobs: FolderBlobs) -> str:
    try:
        return blobs.get(BlobRef(sha256=state.source.sha256, size=state.source.size)).decode()
    except (KeyError, UnicodeDecodeError) as error:
        raise CannotImport("The program itself is missing from the folder's blobs.") from error
