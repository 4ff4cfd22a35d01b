"""What people do with runs: start one, steer one. Each in one transaction; work is sent after the commit."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone
from pydantic import ValidationError

from agents.engineers import reads_text
from agents.events import created, replay_key, requested
from agents.loop.steering import refusal
from agents.model_choice import Role
from agents.state import Control as ControlRequest
from agents.state import Options, State
from agents.steps import hand_made, replay_task
from stitchweb.llm.access import prompts_of, strangers
from stitchweb.programs.models import Revision
from stitchweb.runs import dispatch, events, jobbook, quotas, replays
from stitchweb.runs.access import run_to_steer
from stitchweb.runs.blobs import RunBlobs
from stitchweb.runs.history import view_of
from stitchweb.runs.models import Control, Job, JobState, Run, RunState
from stitchweb.runs.permissions import START
from stitchweb.teams.access import require
from stitchweb.teams.models import User

MOST_REPLAYS = 8  # of one run at once: they take a runner's time from others' steps
CONTROLS = ("pause", "resume", "cancel", "approve_plan", "edit_plan", "hint", "candidate", "branch", "profile")


class ControlRefused(Exception):
    """The request means nothing at this moment. The message is for the person."""


class RunRefused(ControlRefused):
    """A run cannot be started as it was asked for."""


class TooManyRuns(RunRefused):
    """The person has as many runs as one may have at once."""


def runs_left(user: User) -> int:
    """How many more runs the person may start now."""
    return max(0, settings.RUNS_AT_ONCE - Run.objects.active().filter(owner=user).count())


@transaction.atomic
def start_run(user: User, revision: Revision, options: Options, name: str = "") -> Run:
    """A queued run of a revision, and its first message sent on commit. PermissionDenied without a worker's role.

    TooManyRuns, with a way out, when the person has as many as one may have; RunRefused for a model that is not the team's.
    """
    require(user, revision.program.team_id, START)
    # Runs are counted and made one after the other: of two at the same moment each would find room for itself.
    User.objects.select_for_update(of=("self",), no_key=True).get(pk=user.pk)
    if not runs_left(user):
        raise TooManyRuns(
            f"You have as many runs at once as one person may have: {settings.RUNS_AT_ONCE}. Cancel one or wait for one to end,"
            " or ask whoever runs the site to raise RUNS_AT_ONCE."
        )
    if why := quotas.spent(revision.program.team_id):
        raise TooManyRuns(why)
    for role, choice in strangers(revision.program.team_id, options).items():
        raise RunRefused(
            f"The {role}'s model {choice.model} is none of this team's, or its provider has moved. Choose another for it on the"
            " program's page."
        )
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
    blobs = RunBlobs(run.pk)
    source = blobs.put(revision.text.encode())
    own = prompts_of(run.team_id) if options.models else {}
    update = {
        "search": options.search.model_copy(update={"samples": reads_text(options.coder)}),
        "prompts": {name: blobs.put(text.encode()) for name, text in own.items()},
    }
    options = options.model_copy(update=update)
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
    """One name when all roles have the same engineer, else the three; with the model of a role that asks one."""
    roles: tuple[tuple[Role, str], ...] = (
        ("planner", options.planner), ("coder", options.coder), ("verifier", options.verifier)
    )  # fmt: skip
    names = [f"{name}:{options.models[role].model}" if role in options.models else name for role, name in roles]
    return (names[0] if len(set(names)) == 1 else " / ".join(names))[:80]


@transaction.atomic
def replay(user: User, run: Run, candidate: str, row: str) -> Job:
    """Have one recorded draw of a candidate's check made again, also of an ended run; `row` is its `replay_key`.

    ControlRefused with a sentence when there is no such draw or it is under way; PermissionDenied without a worker's role.
    """
    run_to_steer(user, run.pk)
    locked = events.lock(run.pk)
    view = view_of(run.pk)
    known = view.candidates.get(candidate)
    wanted = next((r.replay for r in (known.rows if known else ()) if r.replay and replay_key(r.replay) == row), None)
    if wanted is None:
        raise ControlRefused("This check has no draw that could be replayed. Reload the page: it may be another by now.")
    under_way = [r for r in view.replays.values() if r.open]
    if any(r.row == row for r in under_way):
        raise ControlRefused(f"“{wanted.name}” of {candidate} is being replayed already.")
    if len(under_way) >= MOST_REPLAYS:
        raise ControlRefused(f"{len(under_way)} checks of this run are being replayed. Wait for one to end, or cancel one.")
    try:
        task = replay_task(locked.load(), candidate, wanted, RunBlobs(run.pk))
    except (KeyError, ValueError) as error:
        raise ControlRefused("The program of this check is not stored here any more, so it cannot be replayed.") from error
    return jobbook.create_replay(locked, candidate, task, str(user))


@transaction.atomic
def stop_replay(user: User, run: Run, job_id: int) -> Job:
    """End a replay; its runner learns it from the next answer. Nothing happens to one that has ended.

    ControlRefused when the run has no such replay; PermissionDenied without a worker's role.
    """
    run_to_steer(user, run.pk)
    locked = events.lock(run.pk)
    job = Job.objects.select_for_update().filter(pk=job_id, run=locked, step__isnull=True, within__isnull=True).first()
    if job is None:
        raise ControlRefused("This run has no such replay.")
    if job.open:
        job.state, job.done_at, job.lease_expires = JobState.CANCELLED, timezone.now(), None
        job.save(update_fields=["state", "done_at", "lease_expires"])
        replays.change(locked, job, str(user), state="cancelled", sentence=f"Cancelled by {user}.")
    return job


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
