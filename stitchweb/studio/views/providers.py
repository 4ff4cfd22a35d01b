"""A team's providers: new, changed, its key, gone."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST

from stitchweb.llm.access import provider_to_change, team_to_change
from stitchweb.llm.models import HOSTED, SERVER, Provider
from stitchweb.llm.services import Refused, add_provider, change_provider, remove_key, set_key
from stitchweb.programs.forms import form_problems
from stitchweb.programs.uploads import Problem
from stitchweb.studio.forms import KeyForm, ProviderForm
from stitchweb.studio.views.models import context_of


@sensitive_post_parameters("key")
@sensitive_variables("form")
@require_http_methods(["GET", "HEAD", "POST"])
def new(request: HttpRequest, slug: str) -> HttpResponse:
    """A hosted service or a server of one's own, with its key."""
    team = team_to_change(request.user, slug)
    form, problems = ProviderForm(request.POST or None), list[Problem]()
    if request.method == "POST" and form.is_valid():
        chosen = form.cleaned_data
        try:
            provider = add_provider(request.user, team, chosen["name"], chosen["kind"], chosen["api_base"], chosen["key"])
        except Refused as refusal:
            problems = [Problem("provider", str(refusal), "")]
        else:
            messages.success(request, f"{provider.name} is saved. Name a model of it.")
            return redirect("model-new", team.slug, provider.ident)
    problems += form_problems(form)
    again = bool(problems) and bool(request.POST.get("key"))
    context = context_of(request.user, team) | {
        "values": form.values(), "problems": problems, "key_again": again, "hosted": HOSTED, "server": SERVER
    }  # fmt: skip
    return render(request, "studio/provider_new.html", context, status=422 if problems else 200)


@require_http_methods(["GET", "HEAD", "POST"])
def edit(request: HttpRequest, slug: str, ident: str) -> HttpResponse:
    """Name and base URL, with the forms of the key and of the end beside them."""
    provider = provider_to_change(request.user, slug, ident)
    form, refused = ProviderForm(request.POST or None, provider), ""
    if request.method == "POST" and form.is_valid():
        try:
            dropped = change_provider(provider, form.cleaned_data["name"], form.cleaned_data["api_base"])
        except Refused as refusal:
            refused = str(refusal)
        else:
            if dropped:
                messages.warning(request, "The key was taken away with the old address. Enter the one for the new address.")
                return redirect("provider", slug, ident)
            messages.success(request, f"{provider.name} is saved.")
            return redirect("team-models", slug)
    problems = [Problem("provider", refused, "")] if refused else form_problems(form)
    return _page(request, provider, form, problems)


def _page(request: HttpRequest, provider: Provider, form: ProviderForm, problems: list[Problem]) -> HttpResponse:
    context = context_of(request.user, provider.team) | {
        "provider": provider,
        "values": form.values(),
        "problems": problems,
        "server": SERVER,
        "models_n": provider.models.count(),
    }
    return render(request, "studio/provider.html", context, status=422 if problems else 200)


@sensitive_post_parameters("key")
@sensitive_variables("form")
@require_POST
def key(request: HttpRequest, slug: str, ident: str) -> HttpResponse:
    """Another key in the place of the one that is there, or none."""
    provider = provider_to_change(request.user, slug, ident)
    if "forget" in request.POST:
        remove_key(provider)
        messages.success(request, f"The key of {provider.name} is gone from here. Revoke it with its provider, too.")
        return redirect("team-models", slug)
    form, problems = KeyForm(request.POST), list[Problem]()
    try:
        if form.is_valid():
            set_key(request.user, provider, form.cleaned_data["key"])
            messages.success(
                request, f"The key of {provider.name} is stored. Runs under way use it from their next question on."
            )
            return redirect("team-models", slug)
        problems = form_problems(form)
    except Refused as refusal:
        problems = [Problem("key", str(refusal), "")]
    return _page(request, provider, ProviderForm(None, provider), problems)


@require_POST
def remove(request: HttpRequest, slug: str, ident: str) -> HttpResponse:
    """The provider with its key and models is gone; runs under way that ask it are told so at their next question."""
    provider = provider_to_change(request.user, slug, ident)
    provider.delete()
    messages.success(request, f"{provider.name} was removed with its key and models.")
    return redirect("team-models", slug)
