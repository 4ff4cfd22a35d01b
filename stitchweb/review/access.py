"""Who may score, who may manage, and which rows each of them may see. What a person may not see does not exist for them."""

from __future__ import annotations

from django.core.exceptions import PermissionDenied
from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet, Sum
from django.http import Http404
from django.urls import reverse

from stitchweb.core.withheld import Closed
from stitchweb.programs.models import Program, Revision
from stitchweb.review.judge import was_read
from stitchweb.review.models import (
    Adjudication,
    Adjudicator,
    Assignment,
    AssignmentQuerySet,
    Change,
    Held,
    Hunch,
    Item,
    ItemQuerySet,
    Probe,
    Project,
    ProjectState,
    Review,
    Reviewer,
    Rubric,
    Seen,
)
from stitchweb.review.permissions import MANAGE, SCORE, SETTLE
from stitchweb.runs.models import Control, Run
from stitchweb.teams.access import Person, may, require, teams_for


def rubrics_for(user: Person) -> QuerySet[Rubric]:
    """Rubric versions, newest first. They are no secret: everybody who is signed in may read them."""
    return Rubric.objects.all() if user.is_authenticated else Rubric.objects.none()


def rubric_for(user: Person, key: str, version: int) -> Rubric:
    rubric = rubrics_for(user).filter(key=key, version=version).first()
    if rubric is None:
        raise Http404("There is no such version of a rubric.")
    return rubric


def projects_for(user: Person) -> QuerySet[Project]:
    """Projects that the person scores in, settles or manages, newest first."""
    if not user.is_authenticated:
        return Project.objects.none()
    part = Q(pk__in=parts_of(user).values("project")) | Q(pk__in=grants_of(user).values("project"))
    return Project.objects.filter(part | Q(team__in=teams_for(user, MANAGE))).select_related("team", "rubric")


def counted(projects: QuerySet[Project]) -> QuerySet[Project]:
    """With `items_n`, `wanted_n` and `taken_n`. Goes through all items: for pages that show them, not for a key that waits."""
    return projects.annotate(
        items_n=Count("items"), wanted_n=Sum("items__wanted", default=0), taken_n=Sum("items__taken", default=0)
    )


def project_for(user: Person, pk: int) -> Project:
    """One of `projects_for`, or Http404."""
    project = projects_for(user).filter(pk=pk).first()
    if project is None:
        raise Http404("There is no such review project, or you have no part in it.")
    return project


def project_to_manage(user: Person, pk: int) -> Project:
    """The project, for owners and maintainers of its team. PermissionDenied with a sentence for its reviewers."""
    project = project_for(user, pk)
    require(user, project.team_id, MANAGE)
    return project


def project_with_labels(user: Person, pk: int) -> Project:
    """The project to manage, for pages that tell its labels. PermissionDenied while the manager may still score in it."""
    project = project_to_manage(user, pk)
    left = blind_to(user).filter(sha256__in=project.items.values("sha256")).count()
    if left:
        raise PermissionDenied(
            f"You score in this project too, or the same candidates in another, and {left} of them may still come to you: the"
            " labels open to you after that."
        )
    return project


def reviewer_of(user: Person, project: Project) -> Reviewer | None:
    """The person's part in the project, None when they do not score there."""
    return parts_of(user).filter(project=project).first()


def parts_of(user: Person) -> QuerySet[Reviewer]:
    """Where the person scores now: added to the project, and still one who may score in its team."""
    return Reviewer.objects.filter(user=user.pk, left_at=None, project__team__in=teams_for(user, SCORE))


def grants_of(user: Person) -> QuerySet[Adjudicator]:
    """Where the person settles disputes now: granted, and still one who may score in the team."""
    return Adjudicator.objects.filter(user=user.pk, project__team__in=teams_for(user, SETTLE))


def adjudicates(user: Person, project: Project) -> bool:
    return grants_of(user).filter(project=project).exists()


def strange_to(user: Person) -> ItemQuerySet:
    """Items of no run that the person owns, steered or wrote as a better candidate: those that they may judge."""
    steered = Control.objects.filter(user=user.pk).order_by().values("run")
    wrote = Hunch.objects.filter(assignment__user=user.pk, kept_as__isnull=False).values("kept_as")
    own = Run.objects.filter(owner=user.pk).order_by().values("pk")
    return Item.objects.exclude(run__in=own).exclude(run__in=steered).exclude(run__in=wrote)


def _opened_to(user: Person) -> Q:
    """Items whose content the person has settled, or read others' labels of, in whatever project."""
    whole = Item.objects.filter(
        project__seen__user=user.pk, project__seen__item=None, reviews__submitted_at__lte=F("project__seen__at")
    )
    found = (
        Adjudication.objects.filter(user=user.pk).order_by().values("item__sha256"),
        Seen.objects.filter(user=user.pk, item__isnull=False).order_by().values("item__sha256"),
        whole.order_by().values("sha256"),
    )
    return Q(sha256__in=found[0]) | Q(sha256__in=found[1]) | Q(sha256__in=found[2])


def handed_to(user: Person) -> QuerySet[Assignment, str]:
    """Contents that some project has handed to the person, whatever became of it: they come from no other one again."""
    return Assignment.objects.filter(user=user.pk).order_by().values_list("item__sha256", flat=True)


def to_score(user: Person) -> ItemQuerySet:
    """Items of any project with room that this person may score, in the order of the queue: of a content that no project has
    handed to them, and whose labels they neither settled nor read."""
    fresh = strange_to(user).with_room().exclude(sha256__in=handed_to(user))
    return fresh.exclude(_opened_to(user)).order_by("-gold", "rank")


def to_go_on(user: Person) -> AssignmentQuerySet:
    """What ran out for the person and still has room, gold first; nothing whose labels they have read since."""
    opened = Item.objects.filter(_opened_to(user), assignments__user=user.pk).order_by().values("pk")
    return Assignment.objects.filter(user=user.pk).back().exclude(item__in=opened).order_by("-item__gold", "pk")


def to_settle(user: Person) -> ItemQuerySet:
    """Items that the person may settle as far as they themselves are concerned: never scored nor held by them."""
    held = Assignment.objects.filter(item=OuterRef("pk"), user=user.pk)
    return strange_to(user).filter(~Exists(held))


def blind_to(user: Person) -> ItemQuerySet:
    """Items that the person scores or may still be given: until then nothing of them is for their eyes.

    An item leaves by being scored or skipped, here or in another project, when all its labels are in, when its project closes,
    and when the person scores there no more.
    """
    # Of whole sets, which a database makes once: a queue may be long, and every page of programs and runs asks this.
    mine = Assignment.objects.filter(user=user.pk).order_by().values("item")
    holds, left = Q(pk__in=mine.filter(state=Held.RESERVED)), Q(pk__in=mine.filter(state=Held.EXPIRED))
    to_come = Q(taken__lt=F("wanted")) | Q(Exists(Assignment.objects.filter(item=OuterRef("pk"), state=Held.RESERVED)))
    fresh = (left | ~Q(sha256__in=handed_to(user))) & ~_opened_to(user)
    return (
        strange_to(user)
        .filter(project__in=parts_of(user).values("project"))
        .exclude(project__state=ProjectState.CLOSED)
        .filter(holds | (fresh & to_come))
    )


def was_open_to(user: Person, item: Item) -> bool:
    """Whether what is hidden of an item has been open to somebody who scores it: they have labelled or settled the same content
    elsewhere, read labels of it or a judge's scores, were off its reviewers for a time, or it was open to all for a time."""
    same = {"item__sha256": item.sha256, "user": user.pk}
    closed = Change.objects.filter(
        project=item.project_id, act="change", new__state=ProjectState.CLOSED, at__gte=item.created_at
    )
    return (
        item.opened
        or (user.is_authenticated and was_read(user, item.sha256))
        or Review.objects.filter(**same).exclude(item=item).exists()
        or Item.objects.filter(_opened_to(user), sha256=item.sha256).exists()
        or Reviewer.objects.filter(project=item.project_id, user=user.pk, back_at__gte=item.created_at).exists()
        or closed.exists()
    )


def closed_programs(user: Person) -> QuerySet[Program, int]:
    """Programs whose candidates the person scores blind, and those with the same text that are not the person's own. All their
    runs are closed with them: another run may hold the same candidate with its verdict."""
    runs = blind_to(user).order_by().values("run")
    texts = Revision.objects.filter(runs__in=runs).order_by().values("sha256")
    # The own programs are asked about last: who has none has the long list of items gone through once.
    others = Q(created_by=None) | ~Q(created_by=user.pk) | Q(revisions__runs__in=runs)
    rows = Program.objects.filter(others, revisions__sha256__in=texts)
    return rows.order_by().values_list("pk", flat=True)


def may_hear_of_hunches(user: Person, item: Item) -> bool:
    """Whether verdicts on an item's hunches may be told to those who scored it: not while they score other candidates of its
    program blind, for a hunch may hold the text of any."""
    return not closed_programs(user).filter(pk=item.run.revision.program_id).exists()


def hunch_to_keep(user: Person, pk: int) -> Hunch:
    """A hunch that the person may make something of: their own once they have submitted, or one that is evidence for a label
    which they may read. PermissionDenied with a sentence while its program is closed to them."""
    rows = Hunch.objects.select_related("job", "kept_as", "assignment__item__run__revision", "assignment__item__project")
    found = rows.filter(pk=pk, assignment__state=Held.SUBMITTED).first()
    if found is None:
        raise Http404("There is no such hunch, or it is not for you.")
    item = found.assignment.item
    if found.assignment.user_id == user.pk:
        assignment_for(user, found.assignment_id)
    elif found.attached:
        item_with_labels(user, item.project_id, item.pk)
    else:
        raise Http404("There is no such hunch, or it is not for you.")
    if not may_hear_of_hunches(user, item):
        raise PermissionDenied("You still score other candidates of this program: keep the hunch when you have.")
    return found


def probes_for(user: Person, item: Item) -> QuerySet[Probe]:
    """Probes of the team that were made from the item's reference; none that was found on the same candidate, whose existence
    would tell what a peer made of it."""
    same = Probe.objects.filter(project__team=item.project.team_id, reference_sha256=item.run.revision.sha256)
    return same.filter(project__team__in=teams_for(user, SCORE)).exclude(hunch__assignment__item__sha256=item.sha256)


def why_closed(user: Person, program: int) -> Closed:
    """Why such a program is closed to the person, and what opens it."""
    texts = Revision.objects.filter(program=program).values("sha256")
    items = blind_to(user).filter(Q(run__revision__program=program) | Q(run__revision__sha256__in=texts))
    count, project = items.count(), Project.objects.filter(items__in=items).order_by("pk").first()
    name, pk = (project.name, project.pk) if project else ("", 0)
    many = "1 candidate" if count == 1 else f"{count} candidates"
    return Closed(
        f"You score {many} of this program blind, in the review project “{name}”. Its page tells verdicts and authors, so it is"
        " closed to you until then.",
        "It opens when you have scored or skipped them, when their labels are all in, or when the project closes. To open it"
        " now, ask who manages the project to take you off its reviewers.",
        ("To the queue", reverse("review-project", args=[pk])),
    )


def item_with_labels(user: Person, project_pk: int, pk: int) -> Item:
    """An item whose labels the person may read: as adjudicator or manager of its project, unless they may still score it.

    Http404 where they are neither; PermissionDenied with a sentence while it is in their own queue.
    """
    project = project_for(user, project_pk)
    item = Item.objects.filter(project=project, pk=pk).select_related("project__rubric", "run__owner", "run__revision__program")
    found = item.first() if adjudicates(user, project) or may(user, project.team_id, MANAGE) else None
    if found is None:
        raise Http404("There is no such item, or its labels are not for you.")
    if blind_to(user).filter(sha256=found.sha256).exists():
        raise PermissionDenied("You may still be asked to score this item, so its labels are closed to you until then.")
    return found


def item_to_settle(user: Person, project_pk: int, pk: int) -> Item:
    """An item that the person may give its final label. PermissionDenied without the grant, and for one's own item."""
    item = item_with_labels(user, project_pk, pk)
    if not adjudicates(user, item.project):
        raise PermissionDenied("Settling needs the grant of this project. Who manages it can give it to you.")
    if not to_settle(user).filter(pk=pk).exists():
        raise PermissionDenied("You scored this item, or own or steered its run. Somebody else has to settle it.")
    return item


def assignments_for(user: Person) -> QuerySet[Assignment]:
    """The person's own assignments, newest first, with what a page needs of item, run and rubric. Nobody sees another's."""
    return (
        Assignment.objects.filter(user=user.pk)
        .select_related("item__project__rubric", "item__project__team", "item__run__owner", "item__run__revision__program")
        .select_related("draft")
        .order_by("-pk")
    )


def assignment_for(user: Person, pk: int) -> Assignment:
    """One of them, while its person still scores in the project; or Http404."""
    found = assignments_for(user).filter(pk=pk, item__project__in=parts_of(user).values("project")).first()
    if found is None:
        raise Http404("There is no such item, or it is not in your queue.")
    return found
