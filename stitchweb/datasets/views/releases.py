"""Releases and their exports; where references stand."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib import messages
from django.core.files.storage import default_storage
from django.core.paginator import Paginator
from django.db.models import Count, Q
from django.http import FileResponse, Http404, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from stitchweb.core.once import once
from stitchweb.datasets.access import (
    export_of,
    records_of,
    references_of,
    release_of,
    team_to_make,
    team_to_read,
    teams_to_read,
)
from stitchweb.datasets.configs import CONFIGS, USES, splits_of
from stitchweb.datasets.models import SPLITS, Judge, Record, Release, WorkState
from stitchweb.datasets.progress import Refused
from stitchweb.datasets.services.placing import pin
from stitchweb.datasets.services.releases import request_export, request_release
from stitchweb.datasets.services.work import cancel, stale
from stitchweb.datasets.writing import FORMATS
from stitchweb.review.views.requests import SignedIn
from stitchweb.teams.models import Team

PAGE = 50


def context(request: SignedIn, team: Team, tab: str) -> dict[str, object]:
    """What every page of a team's datasets needs."""
    return {"section": "datasets", "tab": tab, "team": team, "teams": list(teams_to_read(request.user))}


def done(request: SignedIn, work: Callable[[], str], to: str, *args: object) -> HttpResponse:
    """Do it and lead to a page, which says what came of it or why it was refused."""
    try:
        messages.success(request, work())
    except Refused as refusal:
        messages.error(request, str(refusal))
    return redirect(to, *args)


@require_safe
def first_team(request: SignedIn) -> HttpResponse:
    """Leads to the person's first team that has labels, or says who may see datasets."""
    teams = teams_to_read(request.user)
    team = teams.filter(review_projects__items__reviews__isnull=False).first() or teams.first()
    if team is None:
        return render(request, "datasets/none.html", {"section": "datasets"})
    return redirect("team-datasets", team.slug)


@require_http_methods(["GET", "HEAD", "POST"])
def releases(request: SignedIn, slug: str) -> HttpResponse:
    """The team's releases; POST makes another."""
    if request.method == "POST":
        team = team_to_make(request.user, slug)
        name = request.POST.get("name", "").strip()

        def work() -> HttpResponse:
            try:
                row = request_release(request.user, team, name)
            except Refused as refusal:
                return _releases(request, team, name, str(refusal))
            return redirect("release", slug, row.name)

        return once(request, work)
    return _releases(request, team_to_read(request.user, slug))


def _releases(request: SignedIn, team: Team, name: str = "", refused: str = "") -> HttpResponse:
    told = {
        "rows": Release.objects.filter(team=team)[:PAGE],
        "name": name,
        "refused": refused,
        "records_n": records_of(team).count(),
        "references_n": references_of(team).count(),
        "judges_n": Judge.objects.filter(team=team, state=WorkState.DONE).count(),
        "active": Judge.objects.filter(team=team, active=True).first(),
    }
    return render(request, "datasets/releases.html", context(request, team, "releases") | told, status=422 if refused else 200)


@require_safe
def release(request: SignedIn, slug: str, name: str) -> HttpResponse:
    """One release: how far it is, what is in it, what changed, its files."""
    team = team_to_read(request.user, slug)
    row = release_of(team, name)
    exports = {e.format: e for e in row.exports.all()}
    told = {
        "row": row,
        "work": row,
        "stale": stale(row),
        "splits": SPLITS,
        "configs": [
            (config, USES[config], [row.counts.get(config, {}).get(s) if s in splits_of(config) else None for s in SPLITS])
            for config in CONFIGS
        ],
        "files": [(form, exports.get(form)) for form in FORMATS],
        "moving": row.open or any(e.open for e in exports.values()),
    }
    return render(request, "datasets/release.html", context(request, team, "releases") | told)


@require_POST
def cancel_release(request: SignedIn, slug: str, name: str) -> HttpResponse:
    cancel(release_of(team_to_make(request.user, slug), name))
    messages.success(request, "It stops at the next step. Nothing is kept of it.")
    return redirect("release", slug, name)


@require_POST
def export(request: SignedIn, slug: str, name: str) -> HttpResponse:
    """Make the files of a release in one format."""
    row = release_of(team_to_make(request.user, slug), name)

    def work() -> str:
        request_export(request.user, row, request.POST.get("format", ""))
        return "The agent worker makes the files. This page shows how far it is."

    return done(request, work, "release", slug, name)


@require_POST
def cancel_export(request: SignedIn, slug: str, pk: int) -> HttpResponse:
    row = export_of(team_to_make(request.user, slug), pk)
    cancel(row)
    messages.success(request, "It stops at the next step. Nothing is kept of it.")
    return redirect("release", slug, row.release.name)


@require_safe
def export_file(request: SignedIn, slug: str, pk: int) -> HttpResponse:
    """The zip itself."""
    row = export_of(team_to_read(request.user, slug), pk)
    if row.state != WorkState.DONE or not default_storage.exists(row.file):
        raise Http404("These files are not there. Make them again on the page of the release.")
    name = f"{row.release.team.slug}-{row.release.name}-{row.format}.zip"
    return FileResponse(default_storage.open(row.file), as_attachment=True, filename=name, content_type="application/zip")


@require_http_methods(["GET", "HEAD", "POST"])
def references(request: SignedIn, slug: str) -> HttpResponse:
    """Which reference stands in which split, and under which licence; POST pins one or says its licence."""
    if request.method == "POST":
        team = team_to_make(request.user, slug)
        word = request.POST.get("reference", "")

        def work() -> str:
            key = int(word) if word.isdecimal() and len(word) < 18 else 0
            row = pin(
                request.user, team, key, split=request.POST.get("split", ""), license=request.POST.get("license", "").strip()
            )
            return f"“{row.revision.program.name}” stands in {row.pinned or row.split}, under {row.license}."

        return done(request, work, "references", slug)
    team = team_to_read(request.user, slug)
    rows = references_of(team).order_by("group", "pk").annotate(records_n=Count("records"))
    if query := request.GET.get("q", "").strip()[:80]:
        rows = rows.filter(Q(revision__program__name__icontains=query) | Q(group__startswith=query))
    counts = dict(references_of(team).order_by().values_list("split").annotate(n=Count("pk")))
    told = {
        "page": Paginator(rows, PAGE).get_page(request.GET.get("page")),
        "query": query,
        "splits": SPLITS,
        "counts": [(split, counts.get(split, 0)) for split in SPLITS],
        "records_n": Record.objects.filter(team=team).count(),
    }
    return render(request, "datasets/references.html", context(request, team, "references") | told)
