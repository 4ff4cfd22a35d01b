"""A labelled set in the demo team, out of the documented generator: reviewers, labels, disputes, gold items. All of it
synthetic.

Its runs are told as events, like those of a run that came from elsewhere; its figures are made up and nothing was built.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from django.db import transaction
from django.utils import timezone

from agents.events import CandidateView, created, storable
from agents.events import Event as EventContract
from agents.rubric import DIMENSIONS
from agents.rubric.synthetic import Candidate, LabelledSet, Noise, Said, labelled_set
from agents.state import Decision, Options, Plan, State, Status, Todo
from gpu_runner.contracts import PROTOCOLS, CandidateFiles, HackClass, Verdict, digest
from stitchweb.programs.models import Program
from stitchweb.programs.services import Upload, create_program
from stitchweb.review.models import Adjudication, Assignment, Held, Item, Mark, Project, Rating, Review, Reviewer, Rubric
from stitchweb.review.services.gold import add_gold
from stitchweb.review.services.projects import create_project, set_reviewers
from stitchweb.runs.blobs import RunBlobs
from stitchweb.runs.demo import reports
from stitchweb.runs.models import Event, Run, RunState
from stitchweb.teams.models import Membership, Role, Team, User
from stitchweb.teams.services import create_user, set_role

NAME = "Synthetic labels"
RATERS = ("Finn Example", "Gail Example", "Hugo Example", "Iris Example", "Jana Example")
NOISE = (Noise(0.85, 0.12), Noise(), Noise(), Noise(0.5, 0.35, 0.2, 0.05), Noise())
DAY = timedelta(days=1)


def seed_labels(team: Team, candidates: int = 150, references: int = 30, seed: int = 3) -> Project:
    """The project with its labels; one that is there stays and is returned."""
    found = Project.objects.filter(team=team, name=NAME, synthetic=True).first()
    if found:
        return found
    with transaction.atomic():
        return _seed(team, labelled_set(candidates, references, NOISE, seed=seed))


def _seed(team: Team, made: LabelledSet) -> Project:
    owner = User.objects.get(memberships__team=team, memberships__role=Role.OWNER)
    raters = [_rater(team, name) for name in RATERS]
    rubric = Rubric.objects.filter(key="kernels").latest("version")
    project = create_project(owner, team, rubric, NAME, overlap=3, guidelines="Written by a generator.", synthetic=True)
    set_reviewers(owner, project, [rater.pk for rater in raters])
    runs = {number: _run(team, owner, made, number) for number in range(len(made.references))}
    items = _items(project, made, runs)
    _labels(project, rubric, raters, made, items)
    _settle(owner, project, rubric, made, items)
    add_gold(owner, project)
    gold = Item.objects.filter(project=project, gold=True)
    Run.objects.filter(pk__in=gold.values("run")).update(synthetic=True)
    Program.objects.filter(revisions__runs__in=gold.values("run")).update(synthetic=True)
    _gold_labels(project, rubric, raters, list(gold.select_related("answer")))
    return project


def _rater(team: Team, name: str) -> User:
    email = f"{name.split()[0].lower()}@example.org"
    person = User.objects.filter(email=email).first() or create_user(email, name=name)
    if not Membership.objects.filter(team=team, user=person).exists():
        set_role(team, person, Role.REVIEWER)
    return person


def _run(team: Team, owner: User, made: LabelledSet, number: int) -> dict[int, tuple[Run, str, str]]:
    """The run of one reference; by candidate's index: run, name and content digest."""
    text = made.references[number]
    revision = create_program(
        owner, team, Upload(text, f"chain_{number}.py", name=f"Synthetic chain {number + 1}", tags=("synthetic",))
    )
    Program.objects.filter(pk=revision.program_id).update(synthetic=True)
    some = [c for c in made.candidates if c.reference == number]
    at = datetime.now(UTC) - (number + 1) * DAY
    target = some[0].target if some else "cpu"
    run = Run.objects.create(
        team=team, revision=revision, owner=None, name=revision.program.name, target=target, status="finished",
        engineer=some[0].engineer if some else "offline", protocol=PROTOCOLS["strict"].id, candidates=len(some),
        sentence="Made up by seed_demo; nothing of it was built.", synthetic=True, created_at=at, ended_at=at, changed_at=at,
    )  # fmt: skip
    blobs = RunBlobs(run.pk)
    source = blobs.put(text.encode())
    options = Options(protocol=PROTOCOLS["strict"], target=target)
    state = State(run=str(run.pk), name=run.name, source=source, options=options)
    told = created(state, time.time(), synthetic=True)
    names = {c.index: f"c{place}" for place, c in enumerate(some, 1)}
    said: list[tuple[str, dict[str, object]]] = [("plan.made", _plan(some))]
    found = {}
    for c in some:
        view = _view(c, names, blobs)
        said.append(("candidate.changed", view.model_dump(mode="json")))
        said.append(("decision.made", _decision(names[c.index], c)))
        files = {path: ref.sha256 for path, ref in view.files.items()}
        found[c.index] = (run, names[c.index], digest({"reference": source.sha256, "files": files}))
    said.append(("run.status", {"status": "finished", "step": 0}))
    told += [
        EventContract(seq=len(told) + place, kind=kind, who="system", at=told[-1].at, payload=payload)  # type: ignore[arg-type]
        for place, (kind, payload) in enumerate(said, 1)
    ]
    Event.objects.bulk_create(
        Event(run=run, seq=e.seq, kind=e.kind, who=e.who, at=e.at, payload=storable(e.payload)) for e in told
    )
    Run.objects.filter(pk=run.pk).update(last_seq=len(told))
    ended = state.model_copy(update={"status": Status.FINISHED})
    RunState.objects.create(run=run, state=storable(ended.model_dump(mode="json")))
    return found


def _plan(some: Iterable[Candidate]) -> dict[str, object]:
    todos = tuple(
        Todo(id=f"t{c.index}", kind="fuse", title="Fuse the chain into one pass", constraints=c.feedback) for c in some
    )
    return Plan(version=1, todos=todos).model_dump(mode="json")


def _decision(name: str, c: Candidate) -> dict[str, object]:
    made = Decision(
        candidate=name, route="advance" if c.correct else "retry", bottleneck="memory",
        suggestions=("Load four values at once.", "Fuse the rest of the chain."), sentence="What is left to gain is traffic.",
    )  # fmt: skip
    return made.model_dump(mode="json")


def _view(c: Candidate, names: dict[int, str], blobs: RunBlobs) -> CandidateView:
    files = CandidateFiles(files=dict(c.files)).files
    verdict = Verdict.HACK if c.hack else Verdict.VERIFIED if c.correct else Verdict.INCORRECT
    check = reports.check(verdict, HackClass.OUTPUT_CACHE if c.hack else None, "strict/4")
    right = verdict is Verdict.VERIFIED
    return CandidateView(
        id=names[c.index], parent=names.get(c.parent) if c.parent is not None else None, todo=f"t{c.index}",
        title="Fused chain", skill=c.skill, files={path: blobs.put(text.encode()) for path, text in files.items()},
        status="done", verdict=f"hack:{HackClass.OUTPUT_CACHE}" if c.hack else str(verdict), sentence=check.sentence,
        build={"ok": True, "seconds": 1.0, "cached": False, "size": 1, "diagnostics": [], "log": None},
        check={"failed": int(not right), "error_ratio": check.error_ratio, "coverage": check.coverage},
        rows=check.rows, timing=reports.timing(c.speedup, True, "strict/4", random.Random(c.index)),  # noqa: S311
    )  # fmt: skip


def _items(project: Project, made: LabelledSet, runs: dict[int, dict[int, tuple[Run, str, str]]]) -> dict[int, Item]:
    rows = {}
    for c in made.candidates:
        run, name, sha256 = runs[c.reference][c.index]
        rows[c.index] = Item(
            project=project, run=run, candidate=name, sha256=sha256, skill=c.skill, why="made by a generator",
            parent=runs[c.reference][c.parent][1] if c.parent in runs[c.reference] else "",
            rank=c.index / len(made.candidates), wanted=len(c.labels), taken=len(c.labels),
        )  # fmt: skip
    Item.objects.bulk_create(rows.values(), batch_size=500)
    return rows


def _labels(project: Project, rubric: Rubric, raters: Sequence[User], made: LabelledSet, items: dict[int, Item]) -> None:
    entries = [(items[c.index], c, slot, said) for c in made.candidates for slot, said in enumerate(c.labels)]
    store_labels(project, rubric, raters, [(item, slot, said, _lines(c, said)) for item, c, slot, said in entries])


Entry = tuple[Item, int, Said, tuple[str, int, int] | None]  # item, slot, label, evidence: file, first, last


def store_labels(project: Project, rubric: Rubric, raters: Sequence[User], entries: Sequence[Entry]) -> None:
    """Labels as rows, in bulk: what the review's own form would have left."""
    numbers = dict(Reviewer.objects.filter(project=project).values_list("user", "number"))
    now = timezone.now()
    assignments = Assignment.objects.bulk_create(
        (
            Assignment(
                item=item, user=raters[said.rater], state=Held.SUBMITTED, slot=slot, expires_at=now, ended_at=now - DAY,
                active_s=90.0 + 10 * said.rater,
            )
            for item, slot, said, _ in entries
        ),
        batch_size=500,
    )  # fmt: skip
    reviews = Review.objects.bulk_create(
        (
            Review(
                assignment=row, item=item, user=row.user, number=numbers[row.user_id or 0], rubric=rubric,
                hack_level=said.hack_level, hack_types=["output_cache"] if said.hack_level == "major" else [],
                active_s=row.active_s, submitted_at=now - DAY,
            )
            for row, (item, _, said, _) in zip(assignments, entries, strict=True)
        ),
        batch_size=500,
    )  # fmt: skip
    pairs = list(zip(reviews, entries, strict=True))
    Rating.objects.bulk_create(
        (
            Rating(review=review, dimension=key, level=said.levels.get(key), sure=2, reason="Made up by seed_demo.")
            for review, (_, _, said, _) in pairs
            for key in DIMENSIONS
        ),
        batch_size=500,
    )
    Mark.objects.bulk_create(
        (
            Mark(
                review=review, dimension=DIMENSIONS[1], side="candidate", file=lines[0], first=lines[1], last=lines[2],
                text_sha256="0" * 64,
            )
            for review, (_, _, _, lines) in pairs
            if lines
        ),
        batch_size=500,
    )  # fmt: skip


def _lines(c: Candidate, said: Said) -> tuple[str, int, int]:
    kernel = next(path for path in c.files if path.startswith("kernels/"))
    return kernel, 5, 8 + said.rater


def _settle(owner: User, project: Project, rubric: Rubric, made: LabelledSet, items: dict[int, Item]) -> None:
    """Final labels, with the true levels, of half of what is disputed: the others wait."""
    disputed = [
        c
        for c in made.candidates
        if len({s.hack_level for s in c.labels}) > 1
        or any(max(s.levels[k] for s in c.labels) - min(s.levels[k] for s in c.labels) >= 2 for k in DIMENSIONS)
    ]
    Adjudication.objects.bulk_create(
        Adjudication(
            item=items[c.index], user=owner, rubric=rubric, levels=dict(c.levels), reason="Made up by seed_demo.",
            hack_level="major" if c.hack else "none", hack_types=["output_cache"] if c.hack else [],
        )
        for c in disputed[::2]
    )  # fmt: skip


def _gold_labels(project: Project, rubric: Rubric, raters: Sequence[User], items: Sequence[Item]) -> None:
    """Labels of the gold items by everybody who can, a level off now and then."""
    chance = random.Random(8)  # noqa: S311
    entries: list[Entry] = []
    for item in items:
        right = {key: answer["levels"][0] for key, answer in item.answer.answers.items()}
        for rater in range(min(len(raters), item.wanted)):
            levels = {key: min(5, max(1, right.get(key, 3) + chance.choice((0, 0, 0, 1, -1)))) for key in DIMENSIONS}
            entries.append((item, rater, Said(rater, levels, item.answer.hack_levels[0]), None))
        item.taken = min(len(raters), item.wanted)
    store_labels(project, rubric, raters, entries)
    Item.objects.bulk_update(items, ["taken"])
