"""One world for page tests and screenshots: a team with its owner and viewer, an outsider, programs, told runs.

Runs are rows with the events of `views_for_tests`, as an imported run would have them; nothing is dispatched.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from agents.blobs import MemoryBlobs
from agents.events import Event as EventContract
from agents.events import View, fold_all
from agents.state import Options, State
from gpu_runner.contracts import PROTOCOLS, Analysis
from stitchweb.programs.models import Program, Revision, Suite
from stitchweb.programs.services import Upload, create_program
from stitchweb.runs.blobs import RunBlobs
from stitchweb.runs.models import Event, Run, RunState
from stitchweb.teams.models import Role, Team, User
from stitchweb.teams.services import create_team, create_user, set_role
from tests.stitchweb.parts_for_tests import DEVICE, REFERENCE, START
from tests.stitchweb.views_for_tests import refused_story, story

ANALYSIS = {
    "entry": "Model", "inputs": [{"shape": [8, 512, 1024], "dtype": "float32"}],
    "outputs": [{"shape": [8, 512, 1024], "dtype": "float32"}], "parameters": 2048, "parameter_bytes": 8192,
    "ops": [{"op": "aten.gelu", "count": 1, "flops": 33_554_432, "bytes": 33_554_432, "time_ns": 2_410_000},
            {"op": "aten.native_layer_norm", "count": 1, "flops": 29_360_128, "bytes": 33_562_624, "time_ns": 1_930_000}],
    "flops": 62_914_560, "bytes": 33_562_624, "eager_ms": 4.38, "other_batch": True, "device": DEVICE, "wall_s": 3.1,
}  # fmt: skip


@dataclass
class World:
    """`done` is a finished run, `live` stands in the middle of timing, `waiting` waits for approval, `refused` was refused."""

    team: Team
    owner: User
    viewer: User
    outsider: User
    program: Program
    revision: Revision
    suite: Suite
    done: Run
    live: Run
    waiting: Run
    refused: Run


def tell_run(
    revision: Revision, owner: User, events: list[EventContract], blobs: MemoryBlobs, *, shift: float | None = None
) -> Run:
    """A run row with these events, its blobs stored and its list columns filled from their fold. `shift` moves it in time."""
    move = datetime.now(UTC).timestamp() - START - 300 if shift is None else shift
    view: View = fold_all(View(), events)
    best = view.candidates.get(view.best or "")
    report = (best.confirmed or best.timing) if best else None
    over = report.over_eager if report else None
    run = Run.objects.create(
        team=revision.program.team, revision=revision, owner=owner, name=revision.program.name, target="cpu", engineer="offline",
        protocol="strict/4", status=view.status.status.value, last_seq=events[-1].seq, candidates=len(view.candidates),
        verdict=view.result.verdict if view.result else "", sentence=view.result.sentence if view.result else "", best=view.best or "",
        speed=report.speed if report else "", speedup=over.value if over else None, speedup_low=over.low if over else None,
        speedup_high=over.high if over else None,
        speedup_compile=report.over_compile.value if report and report.over_compile else None, coverage=0.987 if best else None,
    )  # fmt: skip
    store = RunBlobs(run.pk)
    for data in blobs._bytes.values():
        store.put(data)
    header = view.header
    assert header is not None
    state = State(run=str(run.pk), name=run.name, source=header.source, options=Options(protocol=PROTOCOLS["strict"]))
    stored = state.model_copy(update={"status": view.status.status}).model_dump(mode="json")
    RunState.objects.create(run=run, state=stored)
    Event.objects.bulk_create(
        Event(run=run, seq=e.seq, kind=e.kind, who=e.who, at=e.at + move, payload=e.payload) for e in events
    )
    run.refresh_from_db()
    return run


def _until(events: list[EventContract], kind: str, **payload: object) -> list[EventContract]:
    """The events up to and with the first of that kind and payload."""
    for place, event in enumerate(events, 1):
        if event.kind == kind and all(event.payload.get(k) == v for k, v in payload.items()):
            return events[:place]
    raise LookupError(kind)


def make_world() -> World:
    owner, viewer = create_user("ada@example.org", name="Ada Byron"), create_user("vera@example.org", name="Vera")
    outsider = create_user("oscar@example.org", name="Oscar")
    team = create_team(owner, "Kernel team")
    create_team(outsider, "Elsewhere")
    set_role(team, viewer, Role.VIEWER)
    revision = create_program(
        owner,
        team,
        Upload(REFERENCE, "layernorm_gelu.py", description="The first half of a feed-forward block.", tags=("norm", "gelu")),
    )
    Revision.objects.filter(pk=revision.pk).update(
        analysis=Analysis.model_validate(ANALYSIS).model_dump(mode="json"), analysis_state="done"
    )
    revision.refresh_from_db()
    broken = create_program(owner, team, Upload(REFERENCE + "\n# other\n", "broken.py"))
    create_program(owner, team, Upload(REFERENCE + "\n# third\n", "rmsnorm.py"))
    suite = Suite.objects.create(team=team, name="level1", created_by=owner)
    for place in range(3):
        member = create_program(owner, team, Upload(REFERENCE + f"\n# {place}\n", f"level1/{place}_norm.py"))
        Program.objects.filter(pk=member.program_id).update(suite=suite, level=1)
    events, blobs = story()
    done = tell_run(revision, owner, events, blobs)
    tell_run(Revision.objects.filter(program__suite=suite).order_by("pk")[0], owner, events, blobs)
    live = tell_run(revision, owner, _until(events, "timing.round"), blobs)
    waiting = tell_run(revision, owner, _until(events, "run.status", status="awaiting_approval"), blobs)
    refused = tell_run(broken, owner, *refused_story())
    return World(
        team, owner, viewer, outsider, revision.program, revision, suite, done, live, waiting, refused
    )  # fmt: skip


def pages_of(world: World) -> dict[str, str]:
    """Every page by name, as the owner of the team sees them."""
    done, live = f"/runs/{world.done.pk}/", f"/runs/{world.live.pk}/"
    return {
        "library": "/", "library-none": "/?q=nothing-of-that-name", "runs": "/runs/", "upload": "/upload/",
        "upload-example": "/upload/?example=layernorm_gelu", "program": f"/programs/{world.program.pk}/",
        "gallery": "/gallery/", "gallery-filtered": "/gallery/?target=cpu&result=rejected",
        "gallery-none": "/gallery/?class=output_cache&result=missed", "gallery-class": "/gallery/timer_patch/",
        "gallery-honest": "/gallery/honest/", "suite": f"/suites/{world.suite.pk}/", "status": "/status/", "profiles": "/profiles/", "run-done": done, "run-live": live,
        "run-waiting": f"/runs/{world.waiting.pk}/", "run-refused": f"/runs/{world.refused.pk}/",
        "run-pinned": f"{done}?candidate=c2&against=reference", "run-plan": f"/runs/{world.waiting.pk}/plan",
        "run-edit": f"{live}candidates/c3/edit", "not-found": "/runs/999999/",
    }  # fmt: skip


def tell_on(run_pk: int, count: int) -> int:
    """Append the next `count` events of the story to a run that stands in the middle of it; the number of the last event."""
    from django.db import transaction

    from stitchweb.runs import events as writing

    told, _ = story()
    with transaction.atomic():
        run = writing.lock(run_pk)
        move = datetime.now(UTC).timestamp() - told[run.last_seq - 1].at
        following = told[run.last_seq : run.last_seq + count]
        return writing.append(run, [e.model_copy(update={"at": e.at + move}) for e in following])
