"""Puts synthetic runs into the database: each script once through the reducer, then as many copies as are asked for."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from django.conf import settings
from django.db import connection, transaction

from agents.state import Budget, Options, State
from gpu_runner.contracts import PROTOCOLS
from stitchweb.core.databases import refresh_statistics
from stitchweb.programs.models import Program, Revision, Suite
from stitchweb.programs.services import Upload, create_program
from stitchweb.runs import history
from stitchweb.runs.blobs import RunBlobs
from stitchweb.runs.demo.play import Play
from stitchweb.runs.demo.scripts import SCRIPTS, Script
from stitchweb.runs.models import Blob, Event, Run, RunState, Snapshot
from stitchweb.runs.services import engineer_name
from stitchweb.runs.summary import store
from stitchweb.teams.models import Role, Team, User
from stitchweb.teams.services import create_team, create_user, set_role

PEOPLE = ("Ada Example", "Ben Example", "Cleo Example", "Dora Example", "Emil Example")
TEAMS = ("Synthetic kernels", "Synthetic vision", "Synthetic speech")
DAY = 24 * 3600.0
BATCH = 500
FACTORS = (1.0, 0.7, 1.4)  # of the gains that the scripts tell


@dataclass(frozen=True)
class Size:
    programs: int  # per team
    runs: int  # at least
    events: int  # at least


SIZES = {"small": Size(programs=8, runs=40, events=0), "large": Size(programs=120, runs=10_000, events=1_000_000)}


def seed(size: Size, say: Callable[[str], None]) -> None:
    """Fill the database. What is there stays; everything added is marked synthetic."""
    chance = random.Random(7)  # noqa: S311  the same content every time
    people = [_person(name) for name in PEOPLE]
    teams = [_team(name, people) for name in TEAMS]
    places = [team for team in teams for _ in range(size.programs)]
    revisions = [_program(team, people[0], number) for number, team in enumerate(places)]
    say(f"{len(teams)} teams, {len(revisions)} programs")
    templates = _templates(revisions, people, size.runs)
    say(f"{len(templates)} kinds of runs, told by the loop")
    total, runs = sum(t.last_seq for t in templates), len(templates)
    # The longest story is told so much more often that as many events come together as were asked for.
    long, mean = max(templates, key=lambda run: run.last_seq), total / runs
    while runs < size.runs or total < size.events:
        left = size.runs - runs
        count = min(BATCH, left if left > 0 else 10)
        wanted = (size.events - total) / max(left, 1)
        share = (wanted - mean) / (long.last_seq - mean)
        total += _copy(
            [long if chance.random() < share else chance.choice(templates) for _ in range(count)], revisions, people, chance
        )
        runs += count
        if size.runs > 1000 and runs % 2000 < BATCH:
            say(f"{runs} runs, {total} events")
    refresh_statistics()
    say(f"{runs} runs, {total} events in all")


def _person(name: str) -> User:
    email = f"{name.split()[0].lower()}@example.org"
    return User.objects.filter(email=email).first() or create_user(email, name=name)


def _team(name: str, people: list[User]) -> Team:
    team = Team.objects.filter(name=name, synthetic=True).first()
    if team is None:
        team = create_team(people[0], name, synthetic=True)
        for person, role in zip(people[1:], (Role.MAINTAINER, Role.MEMBER, Role.REVIEWER, Role.VIEWER), strict=True):
            set_role(team, person, role)
    return team


def _program(team: Team, owner: User, number: int) -> Revision:
    """One of the examples, so that its page shows real code. Every fourth is part of a suite with levels."""
    files = sorted((settings.BASE_DIR / "examples").glob("*.py"))
    file = files[number % len(files)]
    text = f"# Synthetic copy {number + 1}, made by seed_demo.\n{file.read_text()}"
    name = f"{file.stem.replace('_', ' ')} {number // len(files) + 1}"
    revision = create_program(owner, team, Upload(text=text, filename=file.name, name=name, tags=("synthetic",)))
    suite = None
    if number % 4 == 3:
        suite, _ = Suite.objects.get_or_create(
            team=team, name="Synthetic suite", defaults={"created_by": owner, "synthetic": True}
        )
    Program.objects.filter(pk=revision.program_id).update(synthetic=True, suite=suite, level=1 + number % 3 if suite else None)
    return revision


def _templates(revisions: list[Revision], people: list[User], at_most: int) -> list[Run]:
    now = time.time()
    told = [_faster(script, factor) for factor in FACTORS for script in SCRIPTS][: max(len(SCRIPTS), at_most)]
    return [
        _tell(script, revisions[number % len(revisions)], people[number % 3], now - (number + 1) * 0.4 * DAY)
        for number, script in enumerate(told)
    ]


def _faster(script: Script, factor: float) -> Script:
    """The same story with other gains, so that not all programs of a library gained the same."""
    attempts = tuple(replace(a, speedup=max(0.5, 1 + (a.speedup - 1) * factor)) for a in script.attempts)
    return replace(script, attempts=attempts)


@transaction.atomic
def _tell(script: Script, revision: Revision, owner: User, at: float) -> Run:
    budget = Budget(attempts=len(script.attempts) + (2 if script.search.width == 1 else 0))
    options = Options(protocol=PROTOCOLS["strict"], approve_plan=script.waits, budget=budget, search=script.search)
    run = Run.objects.create(
        team=revision.program.team, revision=revision, owner=owner, name=revision.program.name, target=options.target,
        engineer=engineer_name(options), protocol=options.protocol.id, synthetic=True, created_at=_time(at),
    )  # fmt: skip
    blobs = RunBlobs(run.pk)
    state = State(
        run=str(run.pk), name=run.name, source=blobs.put(revision.text.encode()), entry=revision.entry, options=options
    )
    play = Play(script, state, blobs, at)
    store(run, play.run())
    run.changed_at = _time(play.at)
    run.last_seq = len(play.told)
    run.save()
    Event.objects.bulk_create(
        Event(run=run, seq=e.seq, kind=e.kind, who=e.who, at=e.at, payload=e.model_dump(mode="json")["payload"])
        for e in play.told
    )
    history.refresh_snapshot(run)
    return run


@transaction.atomic
def _copy(templates: list[Run], revisions: list[Revision], people: list[User], chance: random.Random) -> int:
    """Runs like these, on other programs and days; events and blobs are copied inside the database. Returns the events."""
    rows, shifts = [], []
    for template in templates:
        revision, shift = chance.choice(revisions), -chance.uniform(0, 180 * DAY)
        values = {f.attname: getattr(template, f.attname) for f in Run._meta.concrete_fields if not f.primary_key}
        values |= {
            "team_id": revision.program.team_id,
            "revision_id": revision.pk,
            "owner_id": chance.choice(people[:3]).pk,
            "name": revision.program.name,
        }
        for moved in ("created_at", "started_at", "changed_at", "ended_at"):
            if values[moved] is not None:
                values[moved] = _time(values[moved].timestamp() + shift)
        rows.append(Run(**values))
        shifts.append(shift)
    Run.objects.bulk_create(rows, batch_size=100)
    copies = list(zip(rows, templates, shifts, strict=True))
    firsts = {e.run_id: e for e in Event.objects.filter(run__in=set(templates), seq=1)}
    views = {s.run_id: s for s in Snapshot.objects.filter(run__in=set(templates))}
    Event.objects.bulk_create(_first(firsts[template.pk], run, shift) for run, template, shift in copies)
    states = {s.run_id: s for s in RunState.objects.filter(run__in=set(templates))}
    RunState.objects.bulk_create(_state(states[template.pk], run) for run, template, _ in copies)
    Snapshot.objects.bulk_create(
        _snapshot(views[template.pk], run, shift) for run, template, shift in copies if template.pk in views
    )
    events, blobs = Event._meta.db_table, Blob.runs.through._meta.db_table
    with connection.cursor() as cursor:
        for run, template, shift in copies:
            cursor.execute(
                f"INSERT INTO {events} (run_id, seq, kind, who, at, payload) "  # noqa: S608  table names are the models'
                f"SELECT %s, seq, kind, who, at + %s, payload FROM {events} WHERE run_id = %s AND seq > 1",
                [run.pk, shift, template.pk],
            )
            cursor.execute(
                f"INSERT INTO {blobs} (blob_id, run_id) SELECT blob_id, %s FROM {blobs} WHERE run_id = %s",  # noqa: S608
                [run.pk, template.pk],
            )
    return sum(run.last_seq for run in rows)


def _first(event: Event, run: Run, shift: float) -> Event:
    """The event that names the run."""
    payload = event.payload | {"run": str(run.pk), "name": run.name}
    return Event(run=run, seq=1, kind=event.kind, who=event.who, at=event.at + shift, payload=payload)


def _state(stored: RunState, run: Run) -> RunState:
    return RunState(run=run, state=stored.state | {"run": str(run.pk), "name": run.name}, result=stored.result)


def _snapshot(snapshot: Snapshot, run: Run, shift: float) -> Snapshot:
    times = {key: snapshot.view[key] + shift for key in ("started_at", "changed_at", "status_since") if snapshot.view[key]}
    header = snapshot.view["header"] | {"run": str(run.pk), "name": run.name}
    return Snapshot(run=run, seq=snapshot.seq, view=snapshot.view | times | {"header": header})


def _time(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)
