"""Who may score, who may manage, and which rows each of them may see. What a person may not see does not exist for them."""

from __future__ import annotations

from django.db.models import Count, Q, QuerySet, Sum
from django.http import Http404

from stitchweb.review.models import Assignment, Project, Reviewer, Rubric
from stitchweb.teams.access import MANAGERS, REVIEWERS, Person, require_role, teams_for


def rubrics_for(user: Person) -> QuerySet[Rubric]:
    """Rubric versions, newest first. They are no secret: everybody who is signed in may read them."""
    return Rubric.objects.all() if user.is_authenticated else Rubric.objects.none()


def rubric_for(user: Person, key: str, version: int) -> Rubric:
    rubric = rubrics_for(user).filter(key=key, version=version).first()
    if rubric is None:
        raise Http404("There is no such version of a rubric.")
    return rubric


def projects_for(user: Person) -> QuerySet[Project]:
    """Projects that the person scores in or manages, newest first, with `items_n`, `wanted_n` and `taken_n`. One query."""
    if not user.is_authenticated:
        return Project.objects.none()
    scores = Q(pk__in=parts_of(user).values("project"))
    return (
        Project.objects.filter(scores | Q(team__in=teams_for(user, MANAGERS)))
        .select_related("team", "rubric")
        .annotate(items_n=Count("items"), wanted_n=Sum("items__wanted", default=0), taken_n=Sum("items__taken", default=0))
    )


def project_for(user: Person, pk: int) -> Project:
    """A project that the person scores in or manages, or Http404."""
    project = projects_for(user).filter(pk=pk).first()
    if project is None:
        raise Http404("There is no such review project, or you have no part in it.")
    return project


def project_to_manage(user: Person, pk: int) -> Project:
    """The project, for owners and maintainers of its team. PermissionDenied with a sentence for its reviewers."""
    project = project_for(user, pk)
    require_role(user, project.team_id, MANAGERS)
    return project


def reviewer_of(user: Person, project: Project) -> Reviewer | None:
    """The person's part in the project, None when they do not score there."""
    return parts_of(user).filter(project=project).first()


def parts_of(user: Person) -> QuerySet[Reviewer]:
    """Where the person scores now: added to the project, and still one who may score in its team."""
    return Reviewer.objects.filter(user=user.pk, left_at=None, project__team__in=teams_for(user, REVIEWERS))


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
