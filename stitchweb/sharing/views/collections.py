"""Collections: the list, one of them, and what is in it."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from stitchweb.core.once import once
from stitchweb.programs.forms import form_problems
from stitchweb.programs.uploads import Problem
from stitchweb.sharing.access import collection_for, collections_for, publication_for, publications_for
from stitchweb.sharing.forms import CollectionForm
from stitchweb.sharing.permissions import COLLECT
from stitchweb.sharing.services.collecting import (
    CollectionRefused,
    change_collection,
    create_collection,
    delete_collection,
    put_in,
    take_out,
)
from stitchweb.sharing.views.published import sections_of
from stitchweb.teams.access import may, teams_for


def collections(request: HttpRequest) -> HttpResponse:
    """GET: all collections of the person's teams, with a form for a new one. POST: make it."""
    form, problems = CollectionForm(request.POST or None), list[Problem]()
    if request.method == "POST" and form.is_valid():

        def work() -> HttpResponse:
            said = form.cleaned_data
            return redirect(
                create_collection(request.user, request.POST.get("team", "")[:60], said["name"], said["description"])
            )

        try:
            return once(request, work)
        except CollectionRefused as refusal:
            problems = [Problem("collection", str(refusal), "")]
    problems += form_problems(form) if request.method == "POST" else []
    teams = list(teams_for(request.user, COLLECT).order_by("name"))
    context = {
        "section": "published", "part": "collections", "collections": list(collections_for(request.user)[:500]), "teams": teams,
        "values": form.values(), "problems": problems,
    }  # fmt: skip
    return render(request, "sharing/collections.html", context, status=422 if problems else 200)


def collection(request: HttpRequest, pk: int) -> HttpResponse:
    """GET: what is in it. POST: another name or description."""
    row, problems = collection_for(request.user, pk), list[Problem]()
    form = CollectionForm(request.POST or None, initial={"name": row.name, "description": row.description})
    if request.method == "POST":
        if form.is_valid():
            try:
                change_collection(request.user, pk, form.cleaned_data["name"], form.cleaned_data["description"])
            except CollectionRefused as refusal:
                problems = [Problem("collection", str(refusal), "")]
            else:
                return redirect(row)
        problems += form_problems(form)
    held = list(publications_for(request.user).filter(collections=row).order_by("-pk")[:500])
    sections, scale = sections_of(held)
    context = {
        "section": "published", "part": "collections", "row": row, "team": row.team, "sections": sections, "scale": scale,
        "count": len(held), "may_collect": may(request.user, row.team_id, COLLECT), "values": form.values(),
        "problems": problems,
    }  # fmt: skip
    return render(request, "sharing/collection.html", context, status=422 if problems else 200)


def collect(request: HttpRequest, pk: int) -> HttpResponse:
    """Put a publication into the collection that the form names."""
    row = publication_for(request.user, pk, COLLECT)
    chosen = request.POST.get("collection", "")
    try:
        if not chosen.isdecimal():
            raise CollectionRefused("Choose a collection from the list, or make one first.")
        into = put_in(request.user, int(chosen[:18]), pk)
    except CollectionRefused as refusal:
        messages.error(request, f"Nothing was changed. {refusal}")
    else:
        messages.success(request, f"{row} is in {into} now.")
    return redirect(row)


def take_from(request: HttpRequest, pk: int, publication_pk: int) -> HttpResponse:
    return redirect(take_out(request.user, pk, publication_pk))


def remove_collection(request: HttpRequest, pk: int) -> HttpResponse:
    row = collection_for(request.user, pk, COLLECT)
    delete_collection(request.user, pk)
    messages.success(request, f"The collection {row} is deleted; what was in it stays published.")
    return redirect("collections")
