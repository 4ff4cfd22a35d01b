"""Projects: made, filled, staffed and watched by those who manage the team; read by their reviewers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from stitchweb.core.once import once
from stitchweb.programs.access import programs_for
from stitchweb.review.access import counted, project_for, project_to_manage, project_with_labels, projects_for, reviewer_of
from stitchweb.review.agreement import FEW
from stitchweb.review.forms import ChangeForm, FilterForm, NewProject, sentences
from stitchweb.review.judge import judge
from stitchweb.review.models import Held, Item, Project, ProjectState
from stitchweb.review.permissions import MANAGE, SCORE
from stitchweb.review.services.projects import (
    VERDICTS,
    ProjectRefused,
    change,
    create_project,
    fill,
    newest_change,
    set_gold,
    set_reviewers,
    settings_of,
)
from stitchweb.review.services.seen import note_all
from stitchweb.review.standing import standing
from stitchweb.review.views.requests import SignedIn, done, number, numbers
from stitchweb.runs.access import runs_for
from stitchweb.teams.access import may, members_for, teams_for

SHOWN = 100


@require_http_methods(["GET", "HEAD", "POST"])
def new_project(request: SignedIn) -> HttpResponse:
    """The form of a new project; sent, it leads to the project, which is empty."""
    teams = teams_for(request.user, MANAGE).order_by("name")
    if not teams.exists():
        raise PermissionDenied("A review project needs an owner or maintainer of a team. An owner can change your role.")
    form = NewProject(request.POST if request.method == "POST" else None, teams)
    if request.method == "POST" and form.is_valid():
        return once(request, lambda: _made(request, form))
    status = 422 if request.method == "POST" else 200
    return render(request, "review/new.html", {"section": "review", "form": form, "problems": sentences(form)}, status=status)


def _made(request: SignedIn, form: NewProject) -> HttpResponse:
    project = create_project(request.user, **form.cleaned_data)
    return redirect("review-project", project.pk)


@require_safe
def project_page(request: SignedIn, pk: int) -> HttpResponse:
    """Guidelines for everybody; progress, items, people and filters for those who manage it."""
    return _shown(request, project_for(request.user, pk))


def _shown(request: SignedIn, project: Project, typed: Mapping[str, Any] | None = None, status: int = 200) -> HttpResponse:
    """`typed`: what stands in the form of the settings when it was refused."""
    project = counted(projects_for(request.user)).get(pk=project.pk)
    context: dict[str, Any] = {
        "section": "review",
        "project": project,
        "scores": reviewer_of(request.user, project) is not None,
        "manages": may(request.user, project.team_id, MANAGE),
        "share": project.taken_n / project.wanted_n if project.wanted_n else 0.0,
    }
    if context["manages"]:
        context |= _managed(request, project) | {"typed": typed or settings_of(project), "seen": newest_change(project)}
    return render(request, "review/project.html", context, status=status)


def _managed(request: SignedIn, project: Project) -> dict[str, Any]:
    people = members_for(project.team_id, SCORE).select_related("user").order_by("user__name")
    parts = {r.user_id: r for r in project.reviewers.filter(left_at=None)}
    rows = Item.objects.filter(project=project).select_related("run__revision__program").prefetch_related("assignments")
    shown = rows.order_by("-gold", "rank")[:SHOWN]
    runs = runs_for(request.user).filter(team=project.team_id).order_by()
    return {
        "people": [(m, parts.get(m.user_id)) for m in people],
        "seen_people": newest_change(project, "reviewers"),
        "seen_adjudicators": newest_change(project, "adjudicators"),
        "adjudicators": set(project.adjudicators.values_list("user", flat=True)),
        "items": [{"item": item, "states": [a.state for a in item.assignments.all()]} for item in shown],
        "more": max(project.items_n - SHOWN, 0),  # type: ignore[attr-defined]
        "judge": judge(project.team),
        "states": ProjectState.choices,
        "verdicts": VERDICTS,
        "programs": programs_for(request.user).filter(team=project.team_id)[:300],
        "targets": runs.values_list("target", flat=True).distinct()[:50],
        "engineers": runs.values_list("engineer", flat=True).distinct()[:50],
        "submitted": project.items.filter(assignments__state=Held.SUBMITTED).count(),
    }


@require_safe
def agreement_page(request: SignedIn, pk: int) -> HttpResponse:
    """How far the reviewers agree, per dimension and pair, for those who manage the project."""
    project = project_with_labels(request.user, pk)
    note_all(request.user, project)
    context = {"section": "review", "project": project, "few": FEW, **standing(project)}
    return render(request, "review/agreement.html", context)


@require_POST
def change_project(request: SignedIn, pk: int) -> HttpResponse:
    """State, reservation and guidelines."""
    project = project_to_manage(request.user, pk)
    form = ChangeForm(request.POST)
    if not form.is_valid():
        messages.error(request, sentences(form))
        return _shown(request, project, request.POST, status=422)
    try:
        change(request.user, project, **form.cleaned_data)
    except ProjectRefused as refusal:
        messages.error(request, str(refusal))
        return _shown(request, project_for(request.user, pk), request.POST, status=409)
    messages.success(request, "Saved.")
    return redirect("review-project", pk)


@require_POST
def fill_project(request: SignedIn, pk: int) -> HttpResponse:
    """Look for candidates by the filters and put them into the queue."""
    project = project_to_manage(request.user, pk)
    form = FilterForm(request.POST)
    if not form.is_valid():
        messages.error(request, sentences(form))
        return redirect("review-project", pk)
    try:
        count = fill(request.user, project, form.filters)
    except ProjectRefused as refusal:
        messages.error(request, str(refusal))
        return redirect("review-project", pk)
    if count:
        messages.success(request, f"{count} item{'' if count == 1 else 's'} came into the queue.")
    else:
        messages.warning(request, "Nothing came: no candidate fits, or all that fit are in the queue. Loosen a filter.")
    return redirect("review-project", pk)


@require_POST
def people_of_project(request: SignedIn, pk: int) -> HttpResponse:
    """Who scores from now on."""
    return set_people(request, pk, set_reviewers)


def set_people(request: SignedIn, pk: int, act: Callable[..., None]) -> HttpResponse:
    """The people that are ticked, to a service which takes person, project, their keys and `seen`."""
    project = project_to_manage(request.user, pk)
    chosen, seen = numbers(request, "user"), number(request.POST.get("seen", ""))

    def work() -> str:
        act(request.user, project, chosen, seen=seen)
        return "Saved."

    return done(request, work, "review-project", pk)


@require_POST
def gold_of_item(request: SignedIn, pk: int, item_pk: int) -> HttpResponse:
    """Make an item one that everybody scores first, or an ordinary one again."""
    project = project_to_manage(request.user, pk)
    return done(
        request, lambda: set_gold(request.user, project, item_pk, request.POST.get("gold") == "1"), "review-project", pk
    )
