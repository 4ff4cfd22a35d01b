"""Comments under a publication."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from stitchweb.core.once import once
from stitchweb.programs.forms import form_problems
from stitchweb.sharing.access import publication_for
from stitchweb.sharing.forms import CommentForm
from stitchweb.sharing.permissions import COMMENT
from stitchweb.sharing.services.talk import CommentRefused, comment, delete_comment
from stitchweb.sharing.views.publication import page_of


def add_comment(request: HttpRequest, pk: int) -> HttpResponse:
    """Say something; what is refused stays in the form."""
    row = publication_for(request.user, pk, COMMENT)
    form = CommentForm(request.POST)
    refused = "".join(f"{p.sentence} {p.way_out}" for p in form_problems(form))
    if not refused:

        def work() -> HttpResponse:
            said = comment(request.user, pk, form.cleaned_data["text"])
            return redirect(f"{row.get_absolute_url()}#comment-{said.pk}")

        try:
            return once(request, work)
        except CommentRefused as refusal:
            refused = str(refusal)
    context = page_of(request, row, said=request.POST.get("text", ""), comment_refused=refused)
    return render(request, "sharing/publication.html", context, status=422)


def remove_comment(request: HttpRequest, pk: int, comment_pk: int) -> HttpResponse:
    delete_comment(request.user, pk, comment_pk)
    messages.success(request, "The comment is deleted.")
    return redirect(f"{publication_for(request.user, pk).get_absolute_url()}#comments")
