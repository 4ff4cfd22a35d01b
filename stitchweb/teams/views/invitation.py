"""The page of an invitation: what it is for, and the way in."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from stitchweb.teams.invitations import InvitationRefused, accept, find, remember


@require_http_methods(["GET", "HEAD", "POST"])
def invitation(request: HttpRequest, token: str) -> HttpResponse:
    """Whose team it is and as what; POST joins. Who is not signed in is sent to sign in, and comes back."""
    try:
        found = find(token)
        if request.method == "POST" and request.user.is_authenticated:
            membership = accept(request.user, token)
            messages.success(request, f"You are in {membership.team} as {membership.role}.")
            return redirect("team", membership.team.slug)
    except InvitationRefused as refusal:
        return render(request, "teams/link_refused.html", {"reason": str(refusal)}, status=404)
    remember(request, token)
    if request.method == "POST":
        return redirect_to_login(request.path)
    # Its token is kept from other sites by the site's own Referrer-Policy. "no-referrer" would make browsers send its form with
    # the origin null, which is refused.
    return render(request, "teams/invitation.html", {"invitation": found})
