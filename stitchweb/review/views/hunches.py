"""The page where a reviewer tries out a hunch, and its list of readings."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from stitchweb.review.access import assignment_for, hunch_to_keep, may_hear_of_hunches, probes_for
from stitchweb.review.blind import REFERENCE_FILE, subject_of
from stitchweb.review.hunches import hunches_of
from stitchweb.review.models import Assignment, Held
from stitchweb.review.services.findings import keep_candidate, keep_probe
from stitchweb.review.services.hunches import attach, try_out
from stitchweb.review.services.projects import ProjectRefused
from stitchweb.review.services.queue import QueueRefused
from stitchweb.review.views.requests import SignedIn, done, number
from stitchweb.runs.permissions import START
from stitchweb.teams.access import may


@require_http_methods(["GET", "HEAD", "POST"])
def hunch_page(request: SignedIn, pk: int) -> HttpResponse:
    """The candidate's texts to change, and what came of earlier hunches; POST has the Verifier check the changed texts."""
    row = assignment_for(request.user, pk)
    if request.method == "POST":
        texts = {key[5:]: value for key, value in request.POST.items() if key.startswith("text-")}
        try:
            try_out(request.user, row.pk, texts, request.POST.get("note", ""))
        except QueueRefused as refusal:
            return render(
                request, "review/hunch.html", _context(row, texts, str(refusal), request.POST.get("note", "")), status=409
            )
        return redirect("review-hunch", row.pk)
    probe = probes_for(request.user, row.item).filter(pk=number(request.GET.get("probe", ""))).first()
    return render(
        request, "review/hunch.html", _context(row, {REFERENCE_FILE: probe.text} if probe else {}, "") | {"tried": probe}
    )


def _context(row: Assignment, texts: dict[str, str], refused: str, note: str = "") -> dict[str, Any]:
    subject = subject_of(row.item, lambda anchor, **wishes: f"#{anchor}")
    files = dict(subject.files["candidate"]) if subject else {}
    reference = subject.files["reference"][REFERENCE_FILE] if subject else ""
    return {
        "section": "review",
        "row": row,
        "project": row.item.project,
        "subject": subject,
        "files": [(path, texts.get(path, text)) for path, text in files.items()],
        "reference": (REFERENCE_FILE, texts.get(REFERENCE_FILE, reference)),
        "refused": refused,
        "note": note,
        "probes": [] if row.state == Held.SUBMITTED or row.user is None else list(probes_for(row.user, row.item)[:50]),
        **_listed(row),
    }


def _listed(row: Assignment) -> dict[str, Any]:
    submitted = row.state == Held.SUBMITTED
    told = submitted and may_hear_of_hunches(row.user, row.item)
    shown = hunches_of(row, tell=told)
    return {
        "row": row,
        "hunches": shown,
        "busy": any(h.open for h in shown),
        "dimensions": row.item.project.rubric.parsed.dimensions,
        "submitted": submitted,
        "works": may(row.user, row.item.project.team_id, START) if submitted and row.user else False,
        "told": told,
    }


@require_safe
def hunch_list(request: SignedIn, pk: int) -> HttpResponse:
    """The list alone, which a page with a hunch under way asks for again."""
    return render(request, "review/hunches.html", _listed(assignment_for(request.user, pk)))


@require_POST
def keep_hunch(request: SignedIn, pk: int) -> HttpResponse:
    """`as`: candidate or probe. Leads to the run of a candidate, and back to where a probe was kept."""
    try:
        if request.POST.get("as") == "candidate":
            return redirect("run", keep_candidate(request.user, pk).pk)
        probe = keep_probe(request.user, pk)
        messages.success(request, f"Kept as probe {probe.number}: reviewers can try it on other candidates of the program.")
    except ProjectRefused as refusal:
        messages.error(request, str(refusal))
    row = hunch_to_keep(request.user, pk).assignment
    if row.user_id == request.user.pk:
        return redirect("review-hunch", row.pk)
    return redirect("review-labels-of", row.item.project_id, row.item_id)


@require_POST
def attach_hunch(request: SignedIn, pk: int, number: int) -> HttpResponse:
    """Make a hunch evidence for a dimension, or for none."""
    row = assignment_for(request.user, pk)
    act = partial(attach, request.user, row.pk, number, request.POST.get("dimension", ""))
    return done(request, act, "review-hunch", row.pk)
