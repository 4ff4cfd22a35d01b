"""Profiles of reports that people bring: the list with its form, one profile, its files, its end."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.cache import patch_vary_headers
from django.views.decorators.csrf import csrf_exempt, csrf_protect
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from stitchweb.programs.forms import form_problems
from stitchweb.programs.uploads import Problem
from stitchweb.runs.access import profile_for, profiles_for
from stitchweb.runs.carry import answer, take_along
from stitchweb.runs.forms import ReportForm
from stitchweb.runs.imports import delete_profile, import_profile
from stitchweb.runs.models import ImportedProfile
from stitchweb.runs.reading import SUFFIXES, ReportRefused
from stitchweb.runs.spread import WISHES, spread


@csrf_exempt  # so that nothing reads a body that is too large; `_profiles` is protected
@require_http_methods(["GET", "HEAD", "POST"])
def profiles(request: HttpRequest) -> HttpResponse:
    """GET: the person's profiles and a form. POST: reads the reports and leads to their profile, or says why it cannot."""
    length = request.headers.get("Content-Length", "0")
    if request.method == "POST" and (not length.isdecimal() or int(length) > settings.MAX_PROFILE_MB << 20):
        sentence = f"The files are larger than {settings.MAX_PROFILE_MB} MB, the most that is taken: profile fewer iterations."
        return _list(request, ReportForm(), [Problem("too-large", sentence, "Nothing was read.")], 413)
    return _profiles(request)


@csrf_protect
def _profiles(request: HttpRequest) -> HttpResponse:
    if request.method != "POST":
        return _list(request, ReportForm())
    form = ReportForm(request.POST)
    if not form.is_valid():
        return _list(request, form, form_problems(form), 422)
    try:
        row = import_profile(request.user, request.FILES.getlist("files"), form.wanted(), form.cleaned_data["name"])
    except ReportRefused as refusal:
        return _list(request, form, [Problem("unreadable", str(refusal), "Nothing was kept.")], refusal.status)
    return redirect("profile", row.pk)


def _list(request: HttpRequest, form: ReportForm, problems: list[Problem] | None = None, status: int = 200) -> HttpResponse:
    context = {
        "section": "profiles",
        "rows": list(profiles_for(request.user)),
        "values": {name: form[name].value() or "" for name in form.fields},
        "problems": problems or [],
        "accept": ",".join((*SUFFIXES, ".gz")),
        "most_mb": settings.MAX_PROFILE_MB,
    }
    return render(request, "runs/profiles.html", context, status=status)


@require_safe
def profile(request: HttpRequest, pk: int) -> HttpResponse:
    """One profile; `?before=PK` holds it against another of the person's. To htmx, the pictures alone."""
    row = profile_for(request.user, pk)
    others = list(profiles_for(request.user).exclude(pk=pk)[:50])
    chosen = request.GET.get("before", "")
    before = profile_for(request.user, int(chosen[:18])) if chosen.isdecimal() else None
    context = _shown(row, before, {key: request.GET[key] for key in WISHES if key in request.GET})
    context |= {"section": "profiles", "row": row, "others": others, "before": before, "panel": f"profile-p{pk}"}
    alone = request.htmx.target == context["panel"]  # type: ignore[attr-defined]
    response = render(request, "runs/imported.html" if alone else "runs/profile.html", context)
    patch_vary_headers(response, ["HX-Target"])
    return response


def _shown(row: ImportedProfile, before: ImportedProfile | None, wishes: dict[str, str]) -> dict[str, Any]:
    place = reverse("profile", args=[row.pk])
    beside = {"before": str(before.pk)} if before else {}

    def address(anchor: str, **chosen: str) -> str:
        return f"{place}?{urlencode({**beside, **chosen})}#{anchor}"

    told = spread(
        row.summary, prefix=f"p{row.pk}", name=row.name, address=address, before=before.summary if before else None,
        before_name=before.name if before else "", wishes=wishes,
    )  # fmt: skip
    return told | take_along(row.summary, lambda name: reverse("profile-file", args=[row.pk, name]), row.name)


@require_safe
def profile_file(request: HttpRequest, pk: int, name: str) -> HttpResponse:
    """The profile for another program: one of `carry.EXPORTS`, as an attachment."""
    row = profile_for(request.user, pk)
    return answer(row.summary, name, row.name)


@require_POST
def profile_delete(request: HttpRequest, pk: int) -> HttpResponse:
    """Forgets it for good."""
    messages.success(request, f"{delete_profile(request.user, pk)} is deleted.")
    return redirect("profiles")
