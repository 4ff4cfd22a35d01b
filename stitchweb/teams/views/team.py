"""Teams: which there are, who is in one and as what, and its end."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from stitchweb.core.mail import mail_works
from stitchweb.core.once import once
from stitchweb.teams import people
from stitchweb.teams.access import may, memberships_for, role_of, team_for
from stitchweb.teams.deletion import delete_team
from stitchweb.teams.invitations import MOST, invite, revoke
from stitchweb.teams.models import Invitation, Role, Team
from stitchweb.teams.people import Refused
from stitchweb.teams.permissions import CHANGE_OWNERS, DELETE_TEAM, MANAGE_PEOPLE, RENAME_TEAM
from stitchweb.teams.services import create_team
from stitchweb.teams.switch import choose

ROLES = (
    (Role.OWNER, "everything, and the team itself"),
    (Role.MAINTAINER, "people, models, reviews, and what members do"),
    (Role.MEMBER, "uploads programs, starts and steers runs"),
    (Role.REVIEWER, "scores candidates"),
    (Role.VIEWER, "looks on"),
)
REMEMBERED = timedelta(days=30)  # after its end, an invitation is still listed: who was asked and never came


class InviteForm(forms.Form):
    """To whom, as what. Without an address it is a link for up to `most` people."""

    role = forms.ChoiceField(choices=Role.choices)
    email = forms.EmailField(required=False)
    most = forms.IntegerField(min_value=1, max_value=MOST, required=False)


@require_http_methods(["GET", "HEAD", "POST"])
def teams(request: HttpRequest) -> HttpResponse:
    """The person's teams, and a form for another. The part with the switch alone for htmx."""
    refused = ""
    if request.method == "POST":
        name = request.POST.get("name", "").strip()[:120]
        if name:
            return once(request, lambda: redirect("team", create_team(request.user, name).slug))
        refused = "A team needs a name."
    context = {"memberships": list(memberships_for(request.user)), "refused": refused, "section": "teams"}
    page = "teams/switch.html" if request.htmx and not refused else "teams/teams.html"
    return render(request, page, context, status=422 if refused else 200)


@require_POST
def choose_team(request: HttpRequest) -> HttpResponse:
    """Look at one team's programs and runs, or with no `team` at all of them."""
    slug = request.POST.get("team", "")
    choose(request, team_for(request.user, slug) if slug else None)
    return redirect("library")


@require_http_methods(["GET", "HEAD", "POST"])
def team(request: HttpRequest, slug: str) -> HttpResponse:
    """People with their roles, invitations, name. POST keeps the name."""
    if request.method == "POST":
        found = team_for(request.user, slug, RENAME_TEAM)
        return _done(
            request, found, lambda: people.rename(request.user, found, request.POST.get("name", "")), "The name is kept."
        )
    return _shown(request, team_for(request.user, slug))


def _shown(request: HttpRequest, found: Team, status: int = 200, **more: object) -> HttpResponse:
    manages, owns = (may(request.user, found.pk, action) for action in (MANAGE_PEOPLE, CHANGE_OWNERS))
    lately = Invitation.objects.filter(team=found, expires_at__gt=timezone.now() - REMEMBERED)
    invitations = list(lately.select_related("created_by").order_by("-created_at", "-pk")) if manages else []
    context = {
        "team": found,
        "section": "teams",
        "members": list(found.memberships.select_related("user").order_by("created_at", "pk")),
        "roles": [(role, says) for role, says in ROLES if owns or role != Role.OWNER],
        "about": ROLES,
        "manages": manages,
        "owns": owns,
        "deletes": may(request.user, found.pk, DELETE_TEAM),
        "mine": role_of(request.user, found.pk),
        "invitations": [one for one in invitations if one.good],
        "ended": [one for one in invitations if not one.good],
        "most": MOST,
    }
    return render(request, "teams/team.html", context | more, status=status)


@require_POST
def invite_people(request: HttpRequest, slug: str) -> HttpResponse:
    """An invitation by mail, or a link that is shown this once."""
    found = team_for(request.user, slug, MANAGE_PEOPLE)
    form = InviteForm(request.POST)
    if not form.is_valid():
        return _shown(request, found, 422, form=form)
    said = form.cleaned_data
    invitation, address = invite(request.user, found, Role(said["role"]), said["email"], said["most"] or 1)
    if invitation.email:
        if mail_works():
            messages.success(request, f"An invitation is on its way to {invitation.email}.")
        else:
            messages.error(
                request,
                f"The invitation for {invitation.email} is made, but this site sends no mail: the letter stands in the log "
                "of the web process (after make run, in its terminal). Or leave the address empty for a link to pass on.",
            )
        return redirect("team", slug)
    return _shown(request, found, made=invitation, address=address)


@require_POST
def uninvite(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    found = team_for(request.user, slug, MANAGE_PEOPLE)
    return _done(request, found, lambda: revoke(request.user, found, pk), "The invitation lets nobody in any more.")


@require_POST
def change_role(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    found = team_for(request.user, slug, MANAGE_PEOPLE)
    role = request.POST.get("role", "")
    if role not in Role.values:
        messages.error(request, "Choose one of the roles.")
        return redirect("team", slug)
    return _done(request, found, lambda: people.change_role(request.user, found, pk, Role(role)), "The role is changed.")


@require_POST
def remove(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    found = team_for(request.user, slug, MANAGE_PEOPLE)
    return _done(request, found, lambda: people.remove(request.user, found, pk), "They are out of the team.")


@require_POST
def transfer(request: HttpRequest, slug: str) -> HttpResponse:
    found = team_for(request.user, slug, CHANGE_OWNERS)
    member = request.POST.get("member", "")
    pk = int(member[:18]) if member.isdecimal() else 0
    return _done(request, found, lambda: people.transfer(request.user, found, pk), "The team is handed over.")


@require_POST
def leave(request: HttpRequest, slug: str) -> HttpResponse:
    found = team_for(request.user, slug)
    try:
        people.leave(request.user, found)
    except Refused as refusal:
        messages.error(request, str(refusal))
        return redirect("team", slug)
    choose(request, None)
    messages.success(request, f"You have left {found}.")
    return redirect("teams")


@require_http_methods(["GET", "HEAD", "POST"])
def delete(request: HttpRequest, slug: str) -> HttpResponse:
    """What goes with the team; sent with its name typed, it is done."""
    found = team_for(request.user, slug, DELETE_TEAM)
    refused = ""
    if request.method == "POST":
        if request.POST.get("name", "").strip() == found.name:
            name, counts = found.name, delete_team(request.user, found)
            choose(request, None)
            messages.success(request, f"{name} is deleted, with {sum(counts.values()):,} rows.")
            return redirect("teams")
        refused = "Type the team's name as it stands above: then it is meant."
    context = {"team": found, "refused": refused, "section": "teams"}
    return render(request, "teams/team_delete.html", context, status=409 if refused else 200)


def _done(request: HttpRequest, found: Team, act: Callable[[], object], said: str) -> HttpResponse:
    """Do it and go back to the team's page, which says so, or why not."""
    try:
        act()
        messages.success(request, said)
    except Refused as refusal:
        messages.error(request, str(refusal))
    return redirect("team", found.slug)
