"""The links of a publication: for whom they are, and their end."""

from __future__ import annotations

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables

from stitchweb.programs.forms import form_problems
from stitchweb.programs.uploads import Problem
from stitchweb.sharing.access import links_of, publication_for
from stitchweb.sharing.forms import LIFE_WORDS, LinkForm
from stitchweb.sharing.permissions import REVOKE_ALL, SHARE
from stitchweb.sharing.services.linking import LinkRefused, make_link, revoke
from stitchweb.teams.access import may


@sensitive_post_parameters("password")
@sensitive_variables("form", "token")
def shares(request: HttpRequest, pk: int) -> HttpResponse:
    """GET: its links and the form for a new one. POST: make it; its address is shown this once, in the answer itself."""
    row = publication_for(request.user, pk, SHARE)
    form, problems, made = LinkForm(request.POST or None), list[Problem](), {}
    if request.method == "POST" and form.is_valid():
        try:
            link, token = make_link(request.user, pk, form.wish())
        except LinkRefused as refusal:
            problems = [Problem("link", str(refusal), "")]
        else:
            made = {"link": link, **addresses(token), "locked": bool(link.password)}
            form = LinkForm()
    problems += form_problems(form) if request.method == "POST" and not made else []
    context = {
        "section": "published", "row": row, "team": row.team, "links": list(links_of(row)[:200]), "made": made,
        "lives": LIFE_WORDS, "values": form.values(), "problems": problems,
        "may_revoke_all": may(request.user, row.team_id, REVOKE_ALL),
    }  # fmt: skip
    response = render(request, "sharing/shares.html", context, status=422 if problems else 200)
    response["Cache-Control"] = "no-store"
    return response


def addresses(token: str) -> dict[str, str]:
    """The full addresses of a link's page, badge and card."""
    names = {"address": "shared", "badge": "shared-badge", "card": "shared-card"}
    return {key: f"{settings.SITE_URL}{reverse(name, args=[token])}" for key, name in names.items()}


def revoke_share(request: HttpRequest, pk: int, link_pk: int) -> HttpResponse:
    link = revoke(request.user, pk, link_pk)
    messages.success(request, f"The link {link.hint}… is revoked. Whoever opens it is told so.")
    return redirect("publication-shares", pk)
