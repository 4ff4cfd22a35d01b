"""Projects: what is in them, who scores in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import Exists, Max, OuterRef, Q
from django.utils import timezone

from agents.events import CandidateView, View
from gpu_runner.contracts import digest
from stitchweb.review import signals
from stitchweb.review.access import handed_to, strange_to
from stitchweb.review.chance import draw
from stitchweb.review.judge import judge
from stitchweb.review.models import (
    HACK_TYPES,
    RANDOM_SHARE,
    Assignment,
    Change,
    Held,
    Item,
    Project,
    ProjectState,
    Review,
    Reviewer,
    Rubric,
)
from stitchweb.review.permissions import MANAGE, SCORE
from stitchweb.review.services.audit import named, record
from stitchweb.review.services.ordering import order_queue
from stitchweb.review.services.queue import release
from stitchweb.runs.history import view_of
from stitchweb.runs.models import ENDED, Run
from stitchweb.teams.access import members_for, require
from stitchweb.teams.models import Team, User

MAX_ITEMS = 10_000
MAX_RUNS = 500  # looked through at once, the newest first
VERDICTS = ("verified", "incorrect", "input-specialised", "hack", "build-failed", "crashed", "timed-out")


class ProjectRefused(Exception):
    """The project cannot be made or changed like that. The message is for the person."""


@dataclass(frozen=True)
class Filters:
    """Which candidates come in. Empty means any. `share` in per cent of those that fit, drawn at random; `most` of them.

    `apart`: only those on which the judge's own answers lie that many levels apart or more, the widest first in the queue.
    """

    program: int | None = None
    target: str = ""
    verdict: str = ""
    engineer: str = ""
    share: int = 100
    most: int = 200
    apart: int = 0

    def __post_init__(self) -> None:
        if self.verdict and self.verdict not in VERDICTS:
            raise ProjectRefused(f"There is no verdict {self.verdict!r}. Choose one of {', '.join(VERDICTS)}, or any.")
        if not 1 <= self.share <= 100:
            raise ProjectRefused("The random share is a number from 1 to 100, in per cent.")
        if not 1 <= self.most <= MAX_ITEMS:
            raise ProjectRefused(f"A queue takes 1 to {MAX_ITEMS} items at once.")
        if not 0 <= self.apart <= 4:
            raise ProjectRefused("Levels apart are a number from 0 to 4.")

    def runs(self, team: Team) -> Iterable[Run]:
        """Ended runs of the team that may hold fitting candidates, newest first."""
        runs = Run.objects.filter(team=team, status__in=ENDED, candidates__gt=0)
        if self.program is not None:
            runs = runs.filter(revision__program=self.program)
        if self.target:
            runs = runs.filter(target=self.target)
        if self.engineer:
            runs = runs.filter(engineer=self.engineer)
        return runs.order_by("-pk")[:MAX_RUNS]

    def fits(self, candidate: CandidateView) -> bool:
        word = (candidate.verdict or "").partition(":")[0]
        return bool(word and candidate.files) and self.verdict in ("", word)

    @property
    def why(self) -> str:
        """Why an item is in the queue, without a word that would tell a verdict or an author."""
        drawn = "all" if self.share == 100 else f"a random {self.share} %"
        about = "this program's candidates" if self.program is not None else "the candidates that fit this queue"
        return f"{drawn} of {about}{f' on {self.target}' if self.target else ''}"


def content_sha256(view: View, candidate: CandidateView) -> str:
    """What is scored: the reference's text and the candidate's files, by their content."""
    reference = view.header.source.sha256 if view.header else ""
    return digest({"reference": reference, "files": {path: ref.sha256 for path, ref in candidate.files.items()}})


@transaction.atomic
def create_project(
    user: User, team: Team, rubric: Rubric, name: str, *, overlap: int = 2, coverage: int = 100, minutes: int = 60,
    guidelines: str = "", synthetic: bool = False, random_share: int = RANDOM_SHARE,
) -> Project:  # fmt: skip
    """An empty project. PermissionDenied unless the person manages the team; ProjectRefused for a number out of bounds."""
    require(user, team.pk, MANAGE)
    if not name.strip():
        raise ProjectRefused("Give the project a name.")
    if not 1 <= overlap <= 9:
        raise ProjectRefused("The overlap is the number of labels per item, 1 to 9.")
    if not 0 <= coverage <= 100:
        raise ProjectRefused("The coverage is a share of the items in per cent, 0 to 100.")
    if not 0 <= random_share <= 100:
        raise ProjectRefused("The random share is a part of the items in per cent, 0 to 100.")
    if not 5 <= minutes <= 1440:
        raise ProjectRefused("A reservation lasts 5 to 1440 minutes.")
    project = Project.objects.create(
        team=team, rubric=rubric, name=name.strip()[:120], overlap=overlap, coverage=coverage, guidelines=guidelines,
        reservation_minutes=minutes, created_by=user, synthetic=synthetic, random_share=random_share,
    )  # fmt: skip
    settings = {
        "rubric": str(rubric), "overlap": overlap, "coverage": coverage, "minutes": minutes, "random_share": random_share,
    }  # fmt: skip
    record(user, project, "create", new=settings | {"name": project.name, "guidelines": guidelines})
    return project


@transaction.atomic
def fill(user: User, project: Project, filters: Filters) -> int:
    """Put the fitting candidates into the queue that are not there yet; returns how many came.

    Two or three queries per run looked through, at most `MAX_RUNS`. The draw is the same each time for one project.
    """
    require(user, project.team_id, MANAGE)
    project = Project.objects.select_for_update().get(pk=project.pk)
    known = set(Item.objects.filter(project=project).values_list("sha256", flat=True))
    items = []
    ranks = {
        (run, cid): rank for run, cid, rank in Item.objects.filter(project=project).values_list("run", "candidate", "rank")
    }
    found = list(_found(project, filters))
    apart = _apart(project, {sha256 for _, _, sha256 in found}) if filters.apart else {}
    for run, candidate, sha256 in found:
        if sha256 in known or (filters.apart and apart.get(sha256, 0) < filters.apart):
            continue
        known.add(sha256)
        item = new_item(project, run, candidate.id, sha256, candidate.skill, filters.why, candidate.parent or "")
        if filters.apart:
            item.rank = (4 - apart[sha256] + item.rank) / 5
        parent = ranks.get((run.pk, candidate.parent or ""), 0.0)
        item.rank = parent + (1 - parent) * item.rank  # after its parent: the feedback that it answers tells how that one did
        ranks[run.pk, candidate.id] = item.rank
        items.append(item)
        if len(items) >= filters.most:
            break
    Item.objects.bulk_create(items, batch_size=500)
    Project.objects.filter(pk=project.pk).update(filters=_as_json(filters))
    record(user, project, "fill", new=_as_json(filters) | {"came": len(items)})
    order_queue(project)
    return len(items)


def _found(project: Project, filters: Filters) -> Iterator[tuple[Run, CandidateView, str]]:
    for run in filters.runs(project.team):
        view = view_of(run.pk)
        for candidate in view.candidates.values():
            if not filters.fits(candidate):
                continue
            sha256 = content_sha256(view, candidate)
            if draw(project, sha256, "share") * 100 < filters.share:
                yield run, candidate, sha256


def _apart(project: Project, contents: set[str]) -> dict[str, int]:
    """How far the judge's own answers lie apart on each of the contents that it has scored."""
    now = judge(project.team)
    if now is None:
        raise ProjectRefused(
            "There is no judge yet, so nothing can be chosen by its disagreement. Choose “any” there, then add again."
        )
    return {sha256: score.apart for sha256, score in now.scores(project.team, contents).items()}


def new_item(project: Project, run: Run, candidate: str, sha256: str, skill: str, why: str, parent: str = "") -> Item:
    """An item for the queue, not stored yet: its random place and how many labels it gets."""
    covered = draw(project, sha256, "coverage") * 100 < project.coverage
    return Item(
        project=project, run=run, candidate=candidate, sha256=sha256, skill=skill, why=why, parent=parent,
        rank=draw(project, sha256, "rank"), wanted=project.overlap if covered else 1,
    )  # fmt: skip


def _as_json(filters: Filters) -> dict[str, Any]:
    return {key: getattr(filters, key) for key in filters.__dataclass_fields__}


@transaction.atomic
def set_reviewers(user: User, project: Project, chosen: Iterable[int], *, seen: int | None = None) -> None:
    """Exactly these people of the team score from now on. Who leaves keeps number and labels; what they held comes free.

    `seen`: as of `change`. ProjectRefused when somebody of them may not score in the team, or the set changed since.
    """
    project, wanted = people_to_set(user, project, chosen, "reviewers", seen)
    there = {r.user_id: r for r in Reviewer.objects.filter(project=project)}
    # Numbers of people who were forgotten stand on their labels still: they go to nobody else.
    given = Review.objects.filter(item__project=project).aggregate(most=Max("number"))["most"]
    number = max([given or 0, *(r.number for r in there.values())])
    for pk in sorted(wanted - there.keys()):
        number += 1
        Reviewer.objects.create(project=project, user_id=pk, number=number)
    back = Reviewer.objects.filter(project=project, user__in=wanted, left_at__isnull=False)
    back.update(left_at=None, back_at=timezone.now())
    gone = Reviewer.objects.filter(project=project, left_at=None).exclude(user__in=wanted)
    release(Assignment.objects.filter(item__project=project, user__in=gone.values("user"), state=Held.RESERVED))
    gone.update(left_at=timezone.now())
    before = sorted(pk for pk, part in there.items() if part.left_at is None)
    record(user, project, "reviewers", old={"people": before}, new={"people": sorted(wanted)})
    if fresh := sorted(wanted - set(before)):
        signals.tell(signals.asked, Project, project=project, by=user, people=fresh)
    gold_for_all(project)


def people_to_set(user: User, project: Project, chosen: Iterable[int], act: str, seen: int | None) -> tuple[Project, set[int]]:
    """The project, its row locked, and the people to be set there by `act`. As `set_reviewers` refuses."""
    require(user, project.team_id, MANAGE)
    project = Project.objects.select_for_update().get(pk=project.pk)
    wanted = set(chosen)
    members = members_for(project.team_id, SCORE).filter(user__in=wanted)
    if wanted - set(members.values_list("user", flat=True)):
        raise ProjectRefused("Somebody of these people may not score in this team. Make them a reviewer of the team first.")
    if seen is not None and seen != newest_change(project, act):
        raise ProjectRefused(
            f"Somebody else changed the {act} since you opened this page, and nothing of yours is saved yet: look at who is"
            " ticked now, then save again."
        )
    return project, wanted


@transaction.atomic
def set_gold(user: User, project: Project, item_pk: int, gold: bool) -> None:
    """Make an item one that every reviewer scores first, whatever the overlap; or an ordinary one again."""
    require(user, project.team_id, MANAGE)
    item = Item.objects.select_for_update().filter(project=project, pk=item_pk).first()
    if item is None:
        raise ProjectRefused("There is no such item in this project.")
    was, item.gold = item.gold, gold
    if not gold:
        item.wanted = max(item.taken, project.overlap)
    item.save(update_fields=["gold", "wanted"])
    record(user, project, "gold", named(item), old={"gold": was}, new={"gold": gold})
    gold_for_all(project)


def gold_for_all(project: Project) -> None:
    """Let every gold item want a label of each reviewer who can give one, beside the labels of those who have left.

    None of those who own or steered its run, and of those to whom another project has handed the same content.
    """
    people = list(Reviewer.objects.filter(project=project, left_at=None).select_related("user"))
    items = list(Item.objects.select_for_update().filter(project=project, gold=True))
    able: dict[int, int] = {item.pk: 0 for item in items}
    for part in people:
        here = Assignment.objects.filter(item=OuterRef("pk"), user=part.user_id)
        free = strange_to(part.user).filter(pk__in=able)
        for pk in free.filter(Q(Exists(here)) | ~Q(sha256__in=handed_to(part.user))).values_list("pk", flat=True):
            able[pk] += 1
    for item in items:
        slots = Assignment.objects.filter(item=item, slot__isnull=False)
        others = slots.exclude(user__in=[part.user_id for part in people]).count()
        was = item.wanted
        item.wanted = max(able[item.pk] + others, item.taken, 1)
        item.opened |= 0 < was <= item.taken < item.wanted and not hasattr(item, "answer")
        item.save(update_fields=["wanted", "opened"])


@transaction.atomic
def change(
    user: User, project: Project, *, state: str, guidelines: str, minutes: int, pass_mark: int = 0,
    keep_days: int | None = None, seen: int | None = None,
) -> None:  # fmt: skip
    """What may change while people score. ProjectRefused for a reservation out of bounds, and when somebody changed it since.

    `seen`: the newest change that the page with these values knew of, see `newest_change`; None: not asked.
    `pass_mark`: per cent of the points of gold items, 0 for no test; `keep_days`: how long after closing it is known who gave a
    label, None for good.
    """
    require(user, project.team_id, MANAGE)
    if not 5 <= minutes <= 1440:
        raise ProjectRefused("A reservation lasts 5 to 1440 minutes.")
    row = Project.objects.select_for_update().get(pk=project.pk)
    if seen is not None and seen != newest_change(row):
        raise ProjectRefused(
            "Somebody changed the settings while you wrote, and nothing of yours is saved yet: compare the guidelines on this"
            " page with yours in the form, then save again."
        )
    old = settings_of(row)
    if state == ProjectState.CLOSED:
        row.closed_at = row.closed_at or timezone.now()
    else:
        row.closed_at = None
    row.state, row.guidelines, row.reservation_minutes = state, guidelines, minutes
    row.pass_mark, row.keep_days = pass_mark, keep_days
    row.save(update_fields=["state", "guidelines", "reservation_minutes", "pass_mark", "keep_days", "closed_at"])
    record(user, row, "change", old=old, new=settings_of(row))


def newest_change(project: Project, act: str = "change") -> int:
    """The key of the last change of this kind, by default of the settings; 0 before the first."""
    return Change.objects.filter(project=project, act=act).values_list("pk", flat=True).first() or 0


def settings_of(row: Project) -> dict[str, Any]:
    return {
        "state": row.state, "guidelines": row.guidelines, "minutes": row.reservation_minutes, "pass_mark": row.pass_mark,
        "keep_days": row.keep_days,
    }  # fmt: skip


def hidden_words() -> frozenset[str]:
    """Words that a reviewer must not read before scoring: verdicts and kinds of hacks."""
    return frozenset(VERDICTS) | frozenset(HACK_TYPES) - {"other"}
