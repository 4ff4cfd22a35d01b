"""The states of review pages, for `tools/states.py`: queues, items, drafts, reveals, disputes, gold, hunches and findings."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta

from django.test import Client
from django.utils import timezone

from gpu_runner.contracts import Verdict
from stitchweb.review import judge
from stitchweb.review.blind import REFERENCE_FILE, scored_files
from stitchweb.review.content import Content, Lines, Score
from stitchweb.review.disputes import disputes_for
from stitchweb.review.judge import JudgeScore
from stitchweb.review.label import GivenLabel
from stitchweb.review.models import Assignment, Hunch, Item, Project, Rubric
from stitchweb.review.services.findings import keep_candidate, keep_probe
from stitchweb.review.services.gold import add_gold
from stitchweb.review.services.hunches import attach, try_out
from stitchweb.review.services.labels import set_adjudicators, settle
from stitchweb.review.services.projects import Filters, change, create_project, fill, set_reviewers
from stitchweb.review.services.queue import next_assignment
from stitchweb.review.services.remarks import remark_of_reader, remark_of_reviewer
from stitchweb.review.services.reviews import save_draft, submit
from stitchweb.review.services.typed import keep_final, keep_revision
from stitchweb.runs.models import Job, JobState
from stitchweb.teams.models import Role, Team, User
from stitchweb.teams.services import create_user, set_role
from tests.stitchweb.parts_for_tests import check_rows
from tests.stitchweb.review_world import make_desk

Pages = dict[str, tuple[str, str]]


def review_pages(team: Team, owner: User) -> Pages:
    pages = _reviews(team, owner) | _disputes(team, owner) | _calibrated(team, owner)
    return pages | _found(team, owner)


def _person(team: Team, name: str, role: Role = Role.REVIEWER) -> User:
    person = create_user(f"{name}@example.org", name=name.title())
    set_role(team, person, role)
    return person


def _taken(person: User, project: Project) -> Assignment:
    row = next_assignment(person, project)
    assert row is not None, f"nothing is left for {person} in {project}"
    return row


def _levels(project: Project, level: int = 4) -> dict[str, Score]:
    return {d.key: Score(level=level) for d in project.rubric.parsed.dimensions}


def _reviews(team: Team, owner: User) -> Pages:
    """A project in which rosa has scored one item and holds another, and rita and raj have not begun."""
    desk = make_desk(team, owner)
    rosa = _person(team, "rosa")
    set_reviewers(owner, desk.project, [rosa.pk, desk.rita.pk, desk.raj.pk])
    done = _taken(rosa, desk.project)
    save_draft(rosa, done.pk, Content(scores=_levels(desk.project), hack_level="none"))
    submit(rosa, done.pk, {})
    held = _taken(rosa, desk.project)
    project = f"/review/projects/{desk.project.pk}/"
    return {
        "review-project": ("ada", project), "review-new": ("ada", "/review/new/"), "review-rubric": ("ada", "/review/rubric/"),
        "review-none": ("nemo", "/review/"), "review-home": ("rosa", "/review/"), "review-guidelines": ("rosa", project),
        "review-item": ("rosa", f"/review/items/{held.pk}/"), "review-done": ("rosa", f"/review/items/{done.pk}/"),
    }  # fmt: skip


def _disputes(team: Team, owner: User) -> Pages:
    """A project whose labels are in, two of them apart, for sam to settle one after the other."""
    ruth, remy, sam, selma = (_person(team, name) for name in ("ruth", "remy", "sam", "selma"))
    project = create_project(owner, team, Rubric.objects.get(key="kernels", version=1), "Scored twice")
    set_reviewers(owner, project, [ruth.pk, remy.pk])
    set_adjudicators(owner, project, [sam.pk, selma.pk])
    fill(owner, project, Filters())
    keys = [d.key for d in project.rubric.parsed.dimensions]
    for shift, person in ((0, ruth), (1, remy)):
        place = 0
        while row := next_assignment(person, project):
            low = 2 if shift and place < 2 else 4
            levels = {
                k: Score(level=low if i == 2 else 4, reason="The costly operator stays outside.") for i, k in enumerate(keys)
            }
            save_draft(person, row.pk, Content(scores=levels, hack_level="unsure" if low == 2 else "none", comment="Compare."))
            submit(person, row.pk, {}, verdict="verified")
            place += 1
    first, second = disputes_for(sam, project)[:2]
    final = GivenLabel(levels=dict.fromkeys(keys, 3), hack_level="none", reason="The costly operator is in the second kernel.")
    settle(sam, project.pk, first.pk, final, after=None, verdict="verified")
    at = f"/review/projects/{project.pk}/"
    row = Assignment.objects.get(item=first, user=ruth)
    remark_of_reviewer(ruth, row, "The second kernel reads what the first one wrote.\nWould you call that fused?")
    remark_of_reader(sam, project.pk, first.pk, "Not fused: it goes through memory.")
    open_label = GivenLabel(levels={keys[0]: 4, keys[2]: 2}, hack_level="minor", reason="The second launch reads what")
    keep_final(selma, project.pk, second.pk, open_label, after=None)
    other = Assignment.objects.get(item=first, user=remy)
    keep_revision(remy, other.pk, open_label)
    return {
        "review-disagreement": ("sam", f"{at}disagreement/"), "review-settle": ("sam", f"{at}items/{second.pk}/labels/"),
        "review-settled": ("sam", f"{at}items/{first.pk}/labels/"), "review-agreement": ("ada", f"{at}agreement/"),
        "review-disagreement-none": ("ada", f"{at}disagreement/?only=open"),
        "review-revealed": ("ruth", f"/review/items/{row.pk}/"),
        "review-settling": ("selma", f"{at}items/{second.pk}/labels/"),
        "review-revising": ("remy", f"/review/items/{other.pk}/"),
        "review-judged": ("ruth", _judged(ruth, row)),
    }  # fmt: skip


def _calibrated(team: Team, owner: User) -> Pages:
    """A project with gold items and a pass mark: gina has answered one and tried a hunch on the next."""
    gina = _person(team, "gina")
    project = create_project(owner, team, Rubric.objects.get(key="kernels", version=1), "With gold")
    set_reviewers(owner, project, [gina.pk])
    add_gold(owner, project)
    fill(owner, project, Filters())
    change(owner, project, state="open", guidelines="", minutes=60, pass_mark=70, keep_days=365)
    done = _taken(gina, project)
    save_draft(gina, done.pk, Content(scores=_levels(project), hack_level="none"))
    submit(gina, done.pk, {})
    held = _taken(gina, project)
    for note in ("It does not depend on the input", "Nor on the shape"):
        _checked(try_out(gina, held.pk, {}, note), Verdict.VERIFIED)
    at = f"/review/projects/{project.pk}/"
    return {
        "review-data": ("ada", f"{at}data/"), "review-trail": ("ada", f"{at}trail/"),
        "review-calibration": ("ada", f"{at}calibration/"), "review-calibration-own": ("gina", f"{at}calibration/"),
        "review-answer": ("gina", f"/review/items/{done.pk}/"), "review-gold": ("gina", f"/review/items/{held.pk}/"),
        "review-hunch": ("gina", f"/review/items/{held.pk}/hunch/"), "closed": ("gina", f"/programs/{_program_of(held)}/"),
        "review-home-adjudicator": ("sam", "/review/"),
    }  # fmt: skip


def _program_of(row: Assignment) -> int:
    return row.item.run.revision.program_id


class _Told:
    """A judge that says the same of everything."""

    name, tells = "a judge for pictures, version 1", True

    def scores(self, team: Team, contents: Collection[str]) -> Mapping[str, JudgeScore]:
        levels = {"anti_hacking": 4, "cuda_engineering": 3, "operator_coverage": 2, "skill_compliance": None}
        return {
            c: JudgeScore(levels, "none", "The second kernel reads from memory what the first one wrote.", 1) for c in contents
        }


def _judged(reader: User, row: Assignment) -> str:
    """The reveal as markup, as it is where a judge has scored the candidate: the web process of the pictures has none."""
    client = Client(headers={"host": "127.0.0.1"})
    client.force_login(reader)
    judge.use(_Told())
    try:
        return client.get(f"/review/items/{row.pk}/").content.decode()
    finally:
        judge.use(None)


def _checked(hunch: Hunch, verdict: Verdict) -> Hunch:
    """As if the Verifier had been there."""
    told = {"kind": "check", "verdict": verdict, "rows": check_rows()}
    Job.objects.filter(pk=hunch.job_id).update(state=JobState.DONE, report=told, done_at=timezone.now())
    return Hunch.objects.get(pk=hunch.pk)


def _changed(item: Item, path: str, note: str) -> dict[str, str]:
    files = scored_files(item)
    text = (files["candidate"] | files["reference"])[path]
    return {path: f"{text}{'#' if path.endswith('.py') else '//'} {note}\n"}


def _found(team: Team, owner: User) -> Pages:
    """What hedy found out about an item and kept, once all is scored; hugo, whom her probe is offered on another item and whose
    own hunch is under way; a draft half typed; an item whose candidate is gone."""
    hedy, hugo, tess, gwen = _person(team, "hedy", Role.MAINTAINER), *(_person(team, n) for n in ("hugo", "tess", "gwen"))
    project = create_project(owner, team, Rubric.objects.get(key="kernels", version=1), "With findings", overlap=4)
    set_reviewers(owner, project, [hedy.pk, hugo.pk, tess.pk, gwen.pk])
    fill(owner, project, Filters())
    kernel = "kernels/ln_gelu.cpp"
    for item in project.items.all():  # the order of a queue is chance: what is tried below must be in any of them
        if kernel not in scored_files(item)["candidate"]:
            item.delete()
    rows = []
    for _ in range(project.items.count()):
        row = _taken(hedy, project)
        rows.append(row)
        if len(rows) == project.items.count():
            tried = [
                (REFERENCE_FILE, "Twice the width shows that the tail is not computed", Verdict.INCORRECT),
                (kernel, "Without the guard it is as right", Verdict.VERIFIED),
                (kernel, "One pass is enough", Verdict.VERIFIED),
                (kernel, "It reads past the end", Verdict.CRASHED),
            ]
            some = [_checked(try_out(hedy, row.pk, _changed(row.item, p, n), n), v) for p, n, v in tried]
            for hunch in some[:2]:
                attach(hedy, row.pk, hunch.number, "anti_hacking")
        save_draft(hedy, row.pk, Content(scores=_levels(project), hack_level="none"))
        submit(hedy, row.pk, {})
    probe = keep_probe(hedy, some[0].pk)
    keep_candidate(hedy, some[1].pk)
    first = _taken(hugo, project)
    try_out(hugo, first.pk, _changed(first.item, kernel, "Does it wait?"), "It does not wait for the stream")
    drafted = _taken(tess, project)
    lines = Lines(dimension="cuda_engineering", side="candidate", file=kernel, first=6, last=9)
    scores = {
        "anti_hacking": Score(level=5, reason="Every draw differs, and so do its answers.", sure=3),
        "cuda_engineering": Score(level=2, sure=2), "operator_coverage": Score(level=0, reason="Not launched at all."),
    }  # fmt: skip
    kinds = ("decorative_kernel",)
    save_draft(tess, drafted.pk, Content(scores=scores, marks=(lines,), hack_level="minor", hack_types=kinds, comment="Half a"))
    was, apart = first.item, create_project(owner, team, project.rubric, "With something lost")
    set_reviewers(owner, apart, [gwen.pk])
    lost = Item.objects.create(
        project=apart, run=was.run, candidate="c99", sha256="9" * 64, skill=was.skill, why=was.why, rank=2, wanted=1, taken=1
    )
    gone = Assignment.objects.create(item=lost, user=gwen, slot=0, expires_at=timezone.now() + timedelta(hours=1))
    last = rows[-1].pk
    return {
        "review-gone": ("gwen", f"/review/items/{gone.pk}/"),
        "review-kept": ("hedy", f"/review/items/{last}/"), "review-hunch-kept": ("hedy", f"/review/items/{last}/hunch/"),
        "review-hunch-probe": ("hugo", f"/review/items/{first.pk}/hunch/?probe={probe.pk}"),
        "review-hunch-open": ("hugo", f"/review/items/{first.pk}/hunch/"),
        "review-typed": ("tess", f"/review/items/{drafted.pk}/"),
    }  # fmt: skip
