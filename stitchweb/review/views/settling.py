"""After the labels: revising one's own, reading where people disagree, settling disputes."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from gpu_runner.hacks.classes import FAMILIES, WORDS
from stitchweb.review.access import adjudicates, item_to_settle, item_with_labels, project_for
from stitchweb.review.blind import Subject, subject_of
from stitchweb.review.code import VIEWS
from stitchweb.review.code import code_panel as panel_of
from stitchweb.review.content import Lines, Problem
from stitchweb.review.disputes import disputed, disputes_for, open_disputes, outdated, readable_for, sheets, verdicts_now
from stitchweb.review.label import GivenLabel, read_label
from stitchweb.review.models import Item, Mark, Project
from stitchweb.review.permissions import MANAGE
from stitchweb.review.reveal import labels_of
from stitchweb.review.rubric import RubricContent
from stitchweb.review.services.labels import set_adjudicators, settle
from stitchweb.review.services.queue import QueueRefused
from stitchweb.review.services.remarks import remark_of_reader
from stitchweb.review.services.reviews import NotComplete
from stitchweb.review.services.seen import note_items
from stitchweb.review.services.typed import keep_final, typed
from stitchweb.review.views.projects import set_people
from stitchweb.review.views.requests import SignedIn, done, kept, number
from stitchweb.runs.permissions import START
from stitchweb.runs.spread import WISHES
from stitchweb.teams.access import may

SHOWN = 100


def relabel(rubric: RubricContent, skill: str, label: GivenLabel, found: list[Problem]) -> dict[str, Any]:
    """For `review/relabel.html`: the levels and the hack flag of a form that gives a label with open eyes."""
    return {
        "dims": [{"d": d, "level": label.levels.get(d.key), "skill": skill} for d in rubric.dimensions],
        "label": label,
        "found": found,
        "families": [(f, [(str(k), WORDS[k].does) for k in f.kinds]) for f in FAMILIES],
    }


@require_safe
def disagreement(request: SignedIn, pk: int) -> HttpResponse:
    """Every item with labels that the person may read, the widest apart first. `?only=disputed` or `open` narrows it."""
    project = project_for(request.user, pk)
    settles, manages = adjudicates(request.user, project), may(request.user, project.team_id, MANAGE)
    rows = readable_for(request.user, project, all_of_them=settles or manages)
    only = request.GET.get("only", "")
    if only == "disputed":
        rows = rows.filter(pk__in=disputed(project).values("pk"))
    elif only == "open":
        rows = rows.filter(pk__in=open_disputes(project).values("pk"))
    rows = rows.select_related("project__rubric", "run__revision__program").prefetch_related("assignments")
    every = sorted(sheets(rows), key=lambda s: (-s.widest, not s.disputed, s.item.rank))
    shown = every[:SHOWN]
    words = verdicts_now(s.item for s in shown)
    note_items(request.user, project, [s.item for s in shown])
    context = {
        "section": "review",
        "project": project,
        "rubric": project.rubric.parsed,
        "only": only,
        "rows": [_row(request, s, project, words[s.item.pk], whole=settles or manages) for s in shown],
        "more": len(every) - len(shown),
        "settles": settles,
        "left": disputes_for(request.user, project).count() if settles else 0,
    }
    return render(request, "review/disagreement.html", context)


def _row(request: SignedIn, sheet: Any, project: Project, verdict: str, *, whole: bool) -> dict[str, Any]:
    own = next((a.pk for a in sheet.item.assignments.all() if a.user_id == request.user.pk), None)
    link = reverse("review-labels-of", args=[project.pk, sheet.item.pk]) if whole else reverse("review-item", args=[own])
    labels = [*(g.review for g in sheet.given), *([sheet.final] if sheet.final else [])]
    return {
        "sheet": sheet,
        "link": link,
        "cells": [
            {"name": d.name, "levels": [g.levels.get(d.key) for g in sheet.given], "apart": sheet.apart(d.key),
             "final": (sheet.final.levels.get(d.key) or "?") if sheet.final else None}
            for d in project.rubric.parsed.dimensions
        ],
        "outdated": any(outdated(label, project, verdict) for label in labels),
    }  # fmt: skip


@require_POST
def next_dispute(request: SignedIn, pk: int) -> HttpResponse:
    """To the next dispute that the person may settle; back, with a sentence, when there is none."""
    project = project_for(request.user, pk)
    if not adjudicates(request.user, project):
        raise PermissionDenied("Settling needs the grant of this project. Who manages it can give it to you.")
    item = disputes_for(request.user, project).first()
    if item is None:
        messages.success(request, "No dispute is left for you.")
        return redirect("review-disagreement", pk)
    return redirect("review-labels-of", pk, item.pk)


@require_http_methods(["GET", "HEAD", "POST"])
def labels_of_item(request: SignedIn, pk: int, item_pk: int) -> HttpResponse:
    """All labels of an item beside its code; POST gives it its final one. Verdict and author are hidden until it is settled."""
    if request.method == "POST":
        return _settle(request, pk, item_pk)
    item = item_with_labels(request.user, pk, item_pk)
    return _labels(request, item, typed(request.user, item, "settle") or GivenLabel(), [])


def _settle(request: SignedIn, pk: int, item_pk: int) -> HttpResponse:
    item = item_to_settle(request.user, pk, item_pk)
    label = read_label(request.POST, item.project.rubric.parsed)
    after = request.POST.get("after", "")
    try:
        settle(
            request.user, pk, item_pk, label,
            after=number(after), verdict=verdicts_now([item])[item.pk],
        )  # fmt: skip
    except QueueRefused as refusal:
        messages.error(request, str(refusal))
        return _labels(request, item, label, [], status=409)
    except NotComplete as missing:
        return _labels(request, item, label, missing.problems, status=422)
    messages.success(request, "Settled. The first labels stay as they are; this one counts.")
    return redirect("review-labels-of", pk, item_pk)


@require_POST
def final_draft(request: SignedIn, pk: int, item_pk: int) -> JsonResponse:
    """Keep what is typed of a final label, for the page that sends it."""
    item = item_to_settle(request.user, pk, item_pk)
    label = read_label(request.POST, item.project.rubric.parsed)
    after = number(request.POST.get("after", ""))
    return kept(lambda: keep_final(request.user, pk, item_pk, label, after=after))


def _labels(request: SignedIn, item: Item, label: GivenLabel, found: list[Problem], status: int = 200) -> HttpResponse:
    project, verdict = item.project, verdicts_now([item])[item.pk]
    here = reverse("review-labels-of", args=[project.pk, item.pk])
    wishes = {key: request.GET[key] for key in WISHES if key in request.GET}
    subject = subject_of(item, lambda anchor, **w: f"{here}?{urlencode(w)}#{anchor}", wishes)
    told = labels_of(item, verdict)
    note_items(request.user, project, [item])
    settles, why_not = True, ""
    try:
        item_to_settle(request.user, project.pk, item.pk)
    except PermissionDenied as refusal:
        settles, why_not = False, str(refusal)
    if settles and not told["disputed"]:
        settles, why_not = False, "The labels lie together, so there is nothing to settle."
    context = {
        "section": "review", "project": project, "item": item, "subject": subject, "rubric": project.rubric.parsed,
        "settles": settles, "why_not": why_not, "verdict_word": verdict if told["final"] else "",
        "remark_at": reverse("review-remark-reader", args=[project.pk, item.pk]),
        "works": may(request.user, project.team_id, START),
        "refused": status == 409,
        "ready": open_disputes(project).filter(pk=item.pk).exists() or told["final"] is not None,
        **told, **relabel(project.rubric.parsed, item.skill, label, found),
    }  # fmt: skip
    if subject:
        context |= _code(request, item, subject, here)
    return render(request, "review/labels.html", context, status=status)


def _code(request: SignedIn, item: Item, subject: Subject, here: str) -> dict[str, Any]:
    against = request.GET.get("against") or ("parent" if item.skill == "feedback" else "nothing")
    marks = [
        Lines(dimension=m.dimension, side=m.side, file=m.file, first=m.first, last=m.last)
        for m in Mark.objects.filter(review__item=item)
    ]
    return {
        "views": VIEWS,
        "code": panel_of(subject, against, request.GET.get("file", ""), marks),
        "letters": {d.key: d.letter for d in item.project.rubric.parsed.dimensions},
        "here": here,
        "code_at": reverse("review-labels-code", args=[item.project_id, item.pk]),
    }


@require_safe
def labels_code(request: SignedIn, pk: int, item_pk: int) -> HttpResponse:
    """The code of an item with everybody's marks, of another file or against another side."""
    item = item_with_labels(request.user, pk, item_pk)
    note_items(request.user, item.project, [item])
    here = reverse("review-labels-of", args=[pk, item_pk])
    subject = subject_of(item, lambda anchor, **w: f"{here}?{urlencode(w)}#{anchor}")
    if subject is None:
        raise Http404("The candidate of this item is not stored here any more.")
    return render(request, "review/code.html", {"subject": subject, **_code(request, item, subject, here)})


@require_POST
def remark(request: SignedIn, pk: int, item_pk: int) -> HttpResponse:
    """Add to the discussion of an item, as one who settles or manages."""

    def work() -> None:
        remark_of_reader(request.user, pk, item_pk, request.POST.get("text", ""))

    return done(request, work, "review-labels-of", pk, item_pk)


@require_POST
def adjudicators_of_project(request: SignedIn, pk: int) -> HttpResponse:
    """Who settles disputes from now on."""
    return set_people(request, pk, set_adjudicators)
