"""The sign-in link: opened once, it signs in and leads on."""

from __future__ import annotations

from allauth.account.internal.flows.login import record_authentication
from django.contrib.auth import login
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_safe

from stitchweb.teams.services import LinkRefused, use_login_link


@require_safe
def login_link(request: HttpRequest, token: str) -> HttpResponse:
    """Sign in by link. A HEAD request (a mail scanner, a chat preview) does not spend it."""
    if request.method == "HEAD":
        return HttpResponse()
    try:
        link = use_login_link(token)
    except LinkRefused as refusal:
        if request.user.is_authenticated:
            return HttpResponseRedirect("/")
        return render(request, "teams/link_refused.html", {"reason": str(refusal)}, status=403)
    login(request, link.user, backend="allauth.account.auth_backends.AuthenticationBackend")
    # As good as proving once more who one is: who has nothing but links sets a password or a passkey by it.
    record_authentication(request, link.user, method="link", reauthenticated=True)
    safe = url_has_allowed_host_and_scheme(link.next_path, allowed_hosts=None)
    response = HttpResponseRedirect(link.next_path if safe else "/")
    response.headers["Referrer-Policy"] = "no-referrer"
    return response
