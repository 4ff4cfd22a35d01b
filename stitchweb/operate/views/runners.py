"""Runners: who they are, how they are, what went wrong on them; a token for another; drain, quarantine, resume, remove."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST

from stitchweb.operate import overview
from stitchweb.runs import accounts, hosts

DONE = {
    "drain": "{} ends what it does and takes nothing new.",
    "quarantine": "{} is quarantined.",
    "resume": "{} takes jobs again.",
    "remove": "{} is removed. What it was doing is given to another.",
}


@require_http_methods(["GET", "HEAD", "POST"])
@sensitive_variables("token")
def runners(request: HttpRequest) -> HttpResponse:
    """The table. A form asks for a token; it is on the page that answers and nowhere else."""
    more: dict[str, Any] = {}
    if request.method == "POST":
        queues = request.POST.get("queues", "").split()
        try:
            accounts.check()
            token = hosts.make_token(queues, request.user)
            more = {"line": f"python -m gpu_runner.serve --join {settings.SITE_URL} {token}", "queues": queues}
        except (hosts.Refused, accounts.NoAccounts) as why:
            more = {"why": str(why), "queues": queues}
    return _page(request, **more)


def _page(request: HttpRequest, **more: Any) -> HttpResponse:
    context = {"section": "operate", "part": "runners", "runners": overview.runners(), "tokens": overview.open_tokens()}
    status = 422 if "why" in more else 200
    answer = render(request, "operate/runners.html", context | more, status=status)
    if "line" in more:
        answer.headers["Cache-Control"] = "no-store"
    return answer


@require_POST
def change(request: HttpRequest) -> HttpResponse:
    """`name`, `action` (drain, quarantine, resume, remove) and, to quarantine, `reason`."""
    name, action = request.POST.get("name", ""), request.POST.get("action", "")
    try:
        if action == "quarantine":
            hosts.quarantine(name, request.user, request.POST.get("reason", "").strip())
        elif action in DONE:
            {"drain": hosts.drain, "resume": hosts.resume, "remove": hosts.remove}[action](name, request.user)
        else:
            raise hosts.Refused(f"There is nothing named {action[:40]!r} to do with a runner.")
        messages.success(request, DONE[action].format(name))
    except hosts.Refused as why:
        messages.error(request, str(why))
    return redirect("operate-runners")
