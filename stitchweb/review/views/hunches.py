"""The page where a reviewer tries out a hunch, and its list of readings."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from stitchweb.review.access import assignment_for, may_hear_of_hunches
from stitchweb.review.blind import REFERENCE_FILE, subject_of
from stitchweb.review.hunches import hunches_of
from stitchweb.review.models import Assignment, Held
from stitchweb.review.services.hunches import attach, try_out
from stitchweb.review.services.queue import QueueRefused
from stitchweb.review.views.requests import SignedIn, done


@login_required
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
    return render(request, "review/hunch.html", _context(row, {}, ""))


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
        "told": told,
    }


@login_required
@require_safe
def hunch_list(request: SignedIn, pk: int) -> HttpResponse:
    """The list alone, which a page with a hunch under way asks for again."""
    return render(request, "review/hunches.html", _listed(assignment_for(request.user, pk)))


@login_required
@require_POST
def attach_hunch(request: SignedIn, pk: int, number: int) -> HttpResponse:
    """Make a hunch evidence for a dimension, or for none."""
    row = assignment_for(request.user, pk)
    act = partial(attach, request.user, row.pk, number, request.POST.get("dimension", ""))
    return done(request, act, "review-hunch", row.pk)
