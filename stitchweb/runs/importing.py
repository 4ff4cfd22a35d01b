"""A headless run's folder becomes a run of the site: same events, same blobs, same page."""

from __future__ import annotations

import math
import os
import stat
from datetime import UTC, datetime
from pathlib import Path

from django.db import transaction
from pydantic import ValidationError

from agents.events import Event as EventContract
from agents.events import storable
from agents.folder import EVENTS_FILE, STATE_FILE
from agents.state import State
from gpu_runner.contracts import CandidateFiles, digest
from stitchweb.programs.services import Upload, UploadRefused, create_program
from stitchweb.runs import history
from stitchweb.runs.blobs import RunBlobs
from stitchweb.runs.models import Event, Run
from stitchweb.runs.services import engineer_name
from stitchweb.runs.summary import store
from stitchweb.teams.models import Team, User

MAX_FILE = 256 * 1024 * 1024  # of a folder: far above what a long run leaves
LAST_TIME = 2**33  # in the year 2242; what lies beyond is no time of a run
MAX_STEP = 1_000_000


class CannotImport(Exception):
    """The folder is no whole run. The message says what is wrong with it."""


@transaction.atomic
def import_folder(folder: Path, team: Team, owner: User) -> Run:
    """The run of a folder that `python -m agents optimize --out` left, all or nothing. CannotImport with the reason."""
    state, told = _state(folder), _events(folder)
    text = _source(state, folder)
    try:
        revision = create_program(owner, team, Upload(text=text, filename=state.name, entry=state.entry))
    except UploadRefused as refusal:
        raise CannotImport(f"Its program is refused: {refusal}") from refusal
    options = state.options
    run = Run.objects.create(
        team=team, revision=revision, owner=owner, name=revision.program.name, target=options.target,
        engineer=engineer_name(options), protocol=options.protocol.id, created_at=datetime.fromtimestamp(told[0].at, UTC),
    )  # fmt: skip
    own = RunBlobs(run.pk)
    for file in sorted((folder / "blobs").glob("*/*")):
        own.put(_blob(file))
    store(run, state.model_copy(update={"run": str(run.pk)}))
    run.last_seq = told[-1].seq
    run.changed_at = datetime.fromtimestamp(told[-1].at, UTC)
    run.save()
    Event.objects.bulk_create(_row(run, event) for event in told)
    try:
        history.refresh_snapshot(run)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        why = "; ".join(str(error).splitlines()[:3])
        raise CannotImport(f"{folder / EVENTS_FILE} tells of no run that could be shown: {why}") from error
    return run


def _row(run: Run, event: EventContract) -> Event:
    payload = event.payload | {"run": str(run.pk), "name": run.name} if event.kind == "run.created" else event.payload
    return Event(run=run, seq=event.seq, kind=event.kind, who=event.who[:120], at=event.at, payload=storable(payload))


def _state(folder: Path) -> State:
    file = folder / STATE_FILE
    try:
        state = State.model_validate_json(_read(file, " Give the folder that --out named."))
    except ValidationError as error:
        raise CannotImport(f"{file} is not a state of this version ({error.error_count()} fields differ).") from error
    times = (state.started_at, state.now)
    if not 0 <= state.step <= MAX_STEP or not all(at is None or _is_time(at) for at in times):
        raise CannotImport(f"{file} has a step or a time that no run has.")
    for candidate in state.candidates:
        try:
            CandidateFiles(files=dict.fromkeys(candidate.files, ""))
        except ValidationError as error:
            why = error.errors()[0]["msg"].removeprefix("Value error, ")
            raise CannotImport(f"{file}: the files of {candidate.id[:40]} cannot be a candidate: {why}.") from error
    if not state.status.ended:
        raise CannotImport(f"The run in {folder} has not ended; it is {state.status.value}.")
    return state


def _events(folder: Path) -> list[EventContract]:
    file = folder / EVENTS_FILE
    try:
        told = [EventContract.model_validate_json(line) for line in _read(file).decode().splitlines()]
    except ValueError as error:  # not text, not JSON, or no event
        raise CannotImport(f"{file} holds something else than events: {error}") from error
    if [event.seq for event in told] != list(range(1, len(told) + 1)) or not told:
        raise CannotImport(f"{file} has a gap: its events must be numbered 1, 2, 3 and so on.")
    if not all(_is_time(event.at) for event in told):
        raise CannotImport(f"{file} holds an event at a time that no run has.")
    return told


def _is_time(seconds: float) -> bool:
    return math.isfinite(seconds) and 0 <= seconds <= LAST_TIME


def _source(state: State, folder: Path) -> str:
    name = state.source.sha256
    place = folder / "blobs" / name[:2] / name
    try:
        if "/" in name or not place.exists():
            raise KeyError(name)
        return _blob(place).decode()
    except (KeyError, UnicodeDecodeError) as error:
        raise CannotImport("The program itself is missing from the folder's blobs.") from error


def _blob(file: Path) -> bytes:
    data = _read(file)
    if digest(data) != file.name:
        raise CannotImport(f"{file} does not hold what its name says; the folder is damaged.")
    return data


def _read(file: Path, way_out: str = "") -> bytes:
    """A plain file of bounded size; the folder may come from anybody, with links, pipes and devices in it."""
    try:
        with open(os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as opened:
            if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                raise CannotImport(f"{file} is no plain file.")
            data = opened.read(MAX_FILE + 1)
    except OSError as error:
        raise CannotImport(f"{file} cannot be read: {error.strerror}.{way_out}") from error
    if len(data) > MAX_FILE:
        raise CannotImport(f"{file} is larger than {MAX_FILE // 2**20} MiB.")
    return data
