"""One publication: published, read, described anew, withdrawn, forked."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from agents.wheel import needs_of
from stitchweb.core.once import once
from stitchweb.programs.forms import form_problems
from stitchweb.programs.services import UploadRefused
from stitchweb.programs.uploads import Problem
from stitchweb.runs.access import run_for
from stitchweb.runs.history import view_of
from stitchweb.runs.services import ControlRefused
from stitchweb.sharing import sheet
from stitchweb.sharing.access import comments_of, may_change, publication_for, publication_to_change, publications_for
from stitchweb.sharing.forms import DescribeForm, PublishForm
from stitchweb.sharing.models import LICENCES, Collection, Content, Publication
from stitchweb.sharing.permissions import COLLECT, COMMENT, FORK, PUBLISH, SHARE, UNSAY_ALL
from stitchweb.sharing.services.forking import fork
from stitchweb.sharing.services.publishing import PublishRefused, describe, newest_of, publish, publishable, withdraw
from stitchweb.sharing.services.talk import handle_of
from stitchweb.sharing.take_home import given_of
from stitchweb.teams.access import role_of, teams_for
from stitchweb.teams.models import User


def publish_page(request: HttpRequest) -> HttpResponse:
    """GET: the form for `?run=PK&candidate=c3`, or why that cannot be published. POST: publish it."""
    given = request.POST if request.method == "POST" else request.GET
    pk, cid = given.get("run", ""), given.get("candidate", "")[:20]
    if not pk.isdecimal():
        raise Http404("There is no such run, or it is not shared with you.")
    run = run_for(request.user, int(pk[:18]), PUBLISH)
    view = view_of(run.pk)
    cid = cid or view.best or ""
    context: dict[str, Any] = {"section": "published", "run": run, "cid": cid, "team": run.team, "licences": LICENCES}
    try:
        context["candidate"] = publishable(view, cid)
    except PublishRefused as refusal:
        return render(request, "sharing/publish.html", context | {"refused": str(refusal)}, status=409)
    initial = {"name": run.revision.program.name, "tags": ", ".join(run.revision.program.tags), "licence": "internal"}
    earlier = newest_of(request.user, run)
    form, problems = PublishForm(request.POST or None, initial=initial), list[Problem]()
    if request.method == "POST" and form.is_valid():

        def work() -> HttpResponse:
            row = publish(request.user, run.pk, cid, form.wish())
            messages.success(request, f"{row} is published. Everybody in {run.team} can see it.")
            return redirect(row)

        try:
            return once(request, work)
        except PublishRefused as refusal:
            problems = [Problem("publish", str(refusal), "")]
    problems += form_problems(form) if request.method == "POST" else []
    context |= {"values": form.values(), "problems": problems, "earlier": earlier}
    if request.method != "POST" and len(earlier) == 1:
        context["values"] |= {"version_of": earlier[0].pk, "licence": earlier[0].licence, "tags": _tags_of(earlier[0])}
    return render(request, "sharing/publish.html", context, status=422 if problems else 200)


def _tags_of(row: Publication) -> str:
    return ", ".join(tag.word for tag in row.tags.all())


def publication(request: HttpRequest, pk: int) -> HttpResponse:
    """GET: everything about a version. POST: other notes, licence and tags, by its author or a maintainer."""
    if request.method == "POST":
        return _described(request, pk)
    row = publication_for(request.user, pk)
    return render(request, "sharing/publication.html", page_of(request, row))


def page_of(request: HttpRequest, row: Publication, **more: Any) -> dict[str, Any]:
    """The context of a publication's page."""
    role = role_of(request.user, row.team_id)
    content = Content.objects.get(publication=row)
    versions = list(publications_for(request.user).filter(team=row.team_id, slug=row.slug).order_by("-version")[:50])
    before = next((v for v in versions if v.version < row.version), None)
    against = request.GET.get("against", "")
    earlier = sheet.texts_of(before, before.content) if before and against == "before" else None
    files = sheet.texts_of(row, content)
    code = sheet.code_of(files, sheet.source_of(row, content), request.GET.get("file", ""), against, earlier)
    seen = publications_for(request.user)

    def profile_file(name: str) -> str:
        return reverse("publication-profile-file", args=[row.pk, name])

    given = given_of(row)
    profile = sheet.profile_of(row, content, row.get_absolute_url(), profile_file, request.GET.dict())
    return {
        "section": "published",
        "row": row,
        "team": row.team,
        "content": content,
        "facts": content.facts,
        "read": sheet.readout(row),
        "timing": sheet.timing_of(row, content),
        "device": sheet.device_of(content),
        "code": code,
        "before": before,
        "page": row.get_absolute_url(),
        "profile": profile,
        "wheel": given.filename if "model_new.py" in files else "",
        "package": given.package,
        "needs": needs_of(files, row.target)[0],
        "versions": versions,
        "parent": seen.filter(pk=row.parent_id).first() if row.parent_id else None,
        "children": list(seen.filter(parent=row).order_by("-pk")[:20]),
        "comments": list(comments_of(row)[:500]),
        "people": sorted({handle_of(u) for u in User.objects.filter(memberships__team=row.team_id, is_active=True)})[:100],
        "collections": list(row.collections.filter(team=row.team_id)),
        "fillable": list(Collection.objects.filter(team=row.team_id).exclude(publications=row))
        if role in COLLECT.roles
        else [],
        "fork_teams": list(teams_for(request.user, FORK).order_by("name")),
        "may_change": may_change(request.user, row, role),
        "may_share": role in SHARE.roles,
        "may_comment": role in COMMENT.roles,
        "may_collect": role in COLLECT.roles,
        "may_unsay_all": role in UNSAY_ALL.roles,
        **more,
    }


def edit_page(request: HttpRequest, pk: int) -> HttpResponse:
    """The form of notes, licence and tags."""
    row = publication_to_change(request.user, pk)
    values = {"notes": row.notes, "licence": row.licence, "tags": _tags_of(row)}
    return render(request, "sharing/edit.html", _edit(row, values))


def _edit(row: Publication, values: dict[str, Any], problems: list[Problem] | None = None) -> dict[str, Any]:
    return {
        "section": "published",
        "row": row,
        "team": row.team,
        "values": values,
        "problems": problems or [],
        "licences": LICENCES,
    }


def _described(request: HttpRequest, pk: int) -> HttpResponse:
    row = publication_to_change(request.user, pk)
    form, problems = DescribeForm(request.POST), list[Problem]()
    if form.is_valid():
        try:
            describe(request.user, pk, form.cleaned_data["notes"], form.cleaned_data["licence"], form.tag_words)
        except PublishRefused as refusal:
            problems = [Problem("describe", str(refusal), "")]
        else:
            messages.success(request, "Saved. What was measured is as it was.")
            return redirect(row)
    problems += form_problems(form)
    return render(request, "sharing/edit.html", _edit(row, form.values(), problems), status=422)


def withdraw_publication(request: HttpRequest, pk: int) -> HttpResponse:
    row = withdraw(request.user, pk)
    messages.success(request, f"{row} is withdrawn: it stands in no list, and its links show nothing.")
    return redirect("published")


def fork_publication(request: HttpRequest, pk: int) -> HttpResponse:
    """Start a run from it, in its team or the one named."""
    row = publication_for(request.user, pk)

    def work() -> HttpResponse:
        with transaction.atomic():
            return redirect("run", fork(request.user, pk, request.POST.get("team", "")[:60]).pk)

    try:
        return once(request, work)
    except (ControlRefused, PublishRefused, UploadRefused) as refusal:
        messages.error(request, f"No run was started. {refusal}")
        return redirect(row)
