"""What people do with runs: start one, steer one. Each in one transaction; work is sent after the commit."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

from django.db import transaction
from django.utils import timezone
from pydantic import ValidationError

from agents.events import created, requested
from agents.loop.steering import refusal
from agents.state import Control as ControlRequest
from agents.state import Options, State
from agents.steps import hand_made
from stitchweb.programs.models import Revision
from stitchweb.runs import dispatch, events
from stitchweb.runs.access import run_to_steer
from stitchweb.runs.blobs import RunBlobs
from stitchweb.runs.models import Control, Run, RunState
from stitchweb.teams.access import WORKERS, require_role
from stitchweb.teams.models import User

CONTROLS = ("pause", "resume", "cancel", "approve_plan", "edit_plan", "hint", "candidate", "branch")


class ControlRefused(Exception):
    """The request means nothing at this moment. The message is for the person."""


def start_run(user: User, revision: Revision, options: Options, name: str = "") -> Run:
    """A queued run of a revision, and its first message sent. PermissionDenied without a worker's role."""
    require_role(user, revision.program.team_id, WORKERS)
    return create_run(user, revision, options, name)


@transaction.atomic
def create_run(owner: User | None, revision: Revision, options: Options, name: str = "", synthetic: bool = False) -> Run:
    """The row, its state and its first event, without asking who may. `start_run` is what pages call."""
    at = time.time()
    name = (name or revision.program.name)[:120]
    run = Run(
        team=revision.program.team,
        revision=revision,
        owner=owner,
        name=name,
        target=options.target,
        engineer=engineer_name(options),
        protocol=options.protocol.id,
        synthetic=synthetic,
        poked_at=timezone.now(),
        created_at=datetime.fromtimestamp(at, UTC),
    )
    run.save()
    source = RunBlobs(run.pk).put(revision.text.encode())
    state = State(run=str(run.pk), name=name, source=source, entry=revision.entry, options=options)
    RunState.objects.create(run=run, state=state.model_dump(mode="json"))
    events.append(run, created(state, at, synthetic=synthetic))
    dispatch.send_on_commit(dispatch.ADVANCE, dispatch.AGENTS_QUEUE, run_id=run.pk)
    return run


@transaction.atomic
def run_again(user: User, run: Run, files: dict[str, str] | None = None, title: str = "") -> Run:
    """A new run of the same revision with the same options. With `files` ({path: text}) it tries that program first.

    ControlRefused when the files are no candidate, or the options are of another version; PermissionDenied without a worker's
    role.
    """
    try:
        options = run.load().options
    except ValidationError as error:
        raise ControlRefused("This version cannot read the run's options. Start one from the program's page.") from error
    fresh = start_run(user, run.revision, options, run.name)
    if files is not None:
        control(user, fresh, "candidate", {"files": files, "parent": None, "title": title})
    return fresh


def engineer_name(options: Options) -> str:
    """One name when all roles have the same engineer, else the three."""
    names = (options.planner, options.coder, options.verifier)
    return (names[0] if len(set(names)) == 1 else " / ".join(names))[:80]


@transaction.atomic
def control(user: User, run: Run, kind: str, data: dict[str, Any] | None = None) -> Control:
    """Record a person's request as an event and send it on its way; the orchestrator applies it.

    `data` per kind: see `agents.state.Control`; for `candidate` give {"files": {path: text}, "parent", "title"}. ControlRefused
    with a sentence when it means nothing now; PermissionDenied without a worker's role.
    """
    if kind not in CONTROLS:
        raise ControlRefused(f"There is no control named {kind!r}.")
    run_to_steer(user, run.pk)
    locked = events.lock(run.pk)
    data = _hand_made(locked, user, data or {}) if kind == "candidate" else dict(data or {})
    request = ControlRequest(id="-", kind=kind, by=str(user), data=data)  # type: ignore[arg-type]  checked above
    if why := refusal(locked.load(), request):
        raise ControlRefused(why)
    row = Control.objects.create(run=locked, kind=kind, user=user, data=data)
    filed = request.model_copy(update={"id": str(row.pk)})
    events.append(locked, [requested(filed, time.time(), locked.last_seq)])
    if kind == "cancel" and locked.cancel_requested_at is None:
        locked.cancel_requested_at = timezone.now()
        locked.save(update_fields=["cancel_requested_at"])
    dispatch.send_on_commit(dispatch.ADVANCE, dispatch.AGENTS_QUEUE, run_id=run.pk)
    return row


def _hand_made(run: Run, user: User, data: dict[str, Any]) -> dict[str, Any]:
    try:
        made = hand_made(
            "-",
            str(user),
            data.get("files") or {},
            data.get("parent"),
            str(data.get("title") or "Edited by hand"),
            RunBlobs(run.pk),
        )
    except ValidationError as error:
        raise ControlRefused("; ".join(str(e["msg"]).removeprefix("Value error, ") for e in error.errors())) from error
    except ValueError as error:
        raise ControlRefused(str(error)) from error
    return made.data
