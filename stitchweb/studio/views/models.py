"""A team's models: the overview, one model, a test of one, defaults per role."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from stitchweb.llm.access import (
    CHANGE,
    SEE,
    defaults_of,
    model_of,
    models_of,
    prompts_of,
    provider_to_change,
    team_to_change,
    team_to_see,
)
from stitchweb.llm.models import ROLES, Provider, TeamModel
from stitchweb.llm.services import Refused, save_model, set_defaults
from stitchweb.programs.forms import form_problems
from stitchweb.programs.uploads import Problem
from stitchweb.studio.forms import DefaultsForm, ModelForm
from stitchweb.studio.prompt_names import in_order, named
from stitchweb.studio.trying import asked, send_test
from stitchweb.teams.access import Person, may, teams_for
from stitchweb.teams.models import Team


@require_safe
def first_team(request: HttpRequest) -> HttpResponse:
    """Leads to the models of the person's first team; says so where there is none."""
    team = teams_for(request.user, SEE).order_by("pk").first()
    if team is None:
        return render(request, "studio/none.html", {"section": "models"})
    return redirect("team-models", team.slug)


def context_of(user: Person, team: Team) -> dict[str, Any]:
    """What each page about a team's models needs."""
    return {"section": "models", "team": team, "may_change": may(user, team.pk, CHANGE)}


@require_safe
def overview(request: HttpRequest, slug: str) -> HttpResponse:
    """Providers with their models, defaults per role, prompts."""
    return _overview(request, team_to_see(request.user, slug))


def _overview(request: HttpRequest, team: Team, form: DefaultsForm | None = None, refused: str = "") -> HttpResponse:
    models = list(models_of(team))
    defaults = defaults_of(team)
    form = form or DefaultsForm(None, {m.pk: m for m in models}, defaults)
    problems = [Problem("defaults", refused, "")] if refused else form_problems(form)
    providers = Provider.objects.filter(team=team).select_related("key_by").order_by("name")
    own = prompts_of(team.pk)
    context = context_of(request.user, team) | {
        "teams": list(teams_for(request.user, SEE).order_by("name")),
        "providers": [
            {"provider": p, "models": [{"model": m, "asked": asked(m)} for m in models if m.provider_id == p.pk]}
            for p in providers
        ],
        "models": models,
        "roles": [{"name": role, "label": label, "chosen": form.values()[role]} for role, label in ROLES],
        "problems": problems,
        "prompts": [(name, named(name)[0], name in own) for name in in_order()],
    }
    return render(request, "studio/models.html", context, status=422 if problems else 200)


@require_POST
def defaults(request: HttpRequest, slug: str) -> HttpResponse:
    """Who does each role of a new run."""
    team = team_to_change(request.user, slug)
    form = DefaultsForm(request.POST, {m.pk: m for m in models_of(team)}, {})
    if not form.is_valid():
        return _overview(request, team, form)
    try:
        set_defaults(team, form.cleaned_data)
    except Refused as refusal:
        return _overview(request, team, form, str(refusal))
    messages.success(request, "New runs begin with these engineers, unless their form says otherwise.")
    return redirect("team-models", team.slug)


@require_http_methods(["GET", "HEAD", "POST"])
def new(request: HttpRequest, slug: str, ident: str) -> HttpResponse:
    """Another model of a provider."""
    return _model_form(request, provider_to_change(request.user, slug, ident), None)


@require_http_methods(["GET", "HEAD", "POST"])
def edit(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    """Name, limits and prices of a model."""
    model = model_of(request.user, slug, pk)
    return _model_form(request, model.provider, model)


def _model_form(request: HttpRequest, provider: Provider, model: TeamModel | None) -> HttpResponse:
    form, problems = ModelForm(request.POST or None, model), list[Problem]()
    if request.method == "POST" and form.is_valid():
        try:
            saved = save_model(provider, model, form.cleaned_data)
        except Refused as refusal:
            problems = [Problem("model", str(refusal), "")]
        else:
            messages.success(
                request, f"{saved.name} is saved." + ("" if saved.test_state else " Test it with one real question.")
            )
            return redirect("team-models", provider.team.slug)
    problems += form_problems(form)
    context = context_of(request.user, provider.team) | {
        "provider": provider, "model": model, "values": form.values(), "problems": problems
    }  # fmt: skip
    return render(request, "studio/model.html", context, status=422 if problems else 200)


@require_POST
def remove(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    """The model is no choice any more. Runs under way go on with it as long as its provider is there."""
    model = model_of(request.user, slug, pk)
    model.delete()
    messages.success(request, f"{model.name} was removed. Runs that use it go on.")
    return redirect("team-models", slug)


@require_http_methods(["GET", "HEAD", "POST"])
def test(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    """POST: one real question, put by the agent worker. GET: what came of it, a fragment that asks again while nothing has."""
    model = model_of(request.user, slug, pk, change=request.method == "POST")
    if request.method == "POST":
        send_test(model)
        model.refresh_from_db()
        if not request.htmx:  # type: ignore[attr-defined]
            messages.success(request, f"{model.name} is being asked. Reload this page for its answer.")
            return redirect("team-models", slug)
    context = context_of(request.user, model.provider.team) | {"m": model, "asked": asked(model)}
    return render(request, "studio/row.html", context)
