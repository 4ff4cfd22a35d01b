"""The bell, the page of notifications, what one is told of, and a team's web hooks."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from stitchweb.core.mail import mail_works
from stitchweb.notify import hooks as services
from stitchweb.notify.access import delivery_for, hook_for, notification_for, notifications_for, team_with_hooks, unread
from stitchweb.notify.kinds import KINDS, WAYS
from stitchweb.notify.models import Hook
from stitchweb.notify.permissions import HOOKS
from stitchweb.notify.services import choose, mark_read, ways_of
from stitchweb.programs.uploads import Problem
from stitchweb.teams.access import teams_for
from stitchweb.teams.models import Team

PER_PAGE = 50
SHOWN = 50  # deliveries of a hook


@never_cache
@require_safe
def bell(request: HttpRequest) -> HttpResponse:
    """How many notifications are unread, for the bar of every page; asked for when the page is there."""
    return render(request, "notify/bell.html", {"unread": unread(request.user)})


@require_safe
def notifications(request: HttpRequest) -> HttpResponse:
    """What the person was told, newest first."""
    page = Paginator(notifications_for(request.user), PER_PAGE).get_page(request.GET.get("page"))
    return render(
        request, "notify/list.html", {"section": "notifications", "page": page, "unread": unread(request.user), "kinds": KINDS}
    )


@require_POST
def follow(request: HttpRequest, pk: int) -> HttpResponse:
    """To what a notification is about; it is read by that."""
    found = notification_for(request.user, pk)
    mark_read([found])
    return redirect(found.place)


@require_POST
def read_all(request: HttpRequest) -> HttpResponse:
    mark_read(notifications_for(request.user).filter(read_at=None))
    return redirect("notifications")


@require_http_methods(["GET", "HEAD", "POST"])
def settings_page(request: HttpRequest) -> HttpResponse:
    """What the person is told of, on which ways."""
    if request.method == "POST":
        known = {(kind, way) for kind in KINDS for way, _ in WAYS}
        choose(request.user, known & {tuple(word.split("/", 1)) for word in request.POST.getlist("want") if "/" in word})
        messages.success(request, "Saved.")
        return redirect("notification-settings")
    chosen = ways_of(request.user)
    rows = [
        {"kind": kind, "ways": [{"way": way, "label": label, "on": chosen[name][way]} for way, label in WAYS]}
        for name, kind in KINDS.items()
    ]
    context = {"section": "notification-settings", "rows": rows, "ways": WAYS, "mail_works": mail_works()}
    return render(request, "notify/settings.html", context)


@require_safe
def hooks(request: HttpRequest) -> HttpResponse:
    """Leads to the hooks of the first team that the person manages; says so where there is none."""
    team = teams_for(request.user, HOOKS).order_by("pk").first()
    return redirect("team-hooks", team.slug) if team else render(request, "notify/no_hooks.html", {"section": "hooks"})


def _context(request: HttpRequest, team: Team) -> dict[str, Any]:
    return {
        "section": "hooks", "team": team, "teams": list(teams_for(request.user, HOOKS).order_by("name")),
        "kinds": list(KINDS.values()),
    }  # fmt: skip


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def team_hooks(request: HttpRequest, slug: str) -> HttpResponse:
    """A team's hooks and a form for another, whose secret this page shows once."""
    team = team_with_hooks(request.user, slug)
    made, secret, problems = None, "", list[Problem]()
    chosen = {"name": "", "url": "", "kinds": list(KINDS)}
    if request.method == "POST":
        chosen = _posted(request)
        try:
            made, secret = services.add_hook(request.user, team, *chosen.values())
        except services.HookRefused as refusal:
            problems = [Problem("hook", str(refusal))]
    rows = list(Hook.objects.filter(team=team).select_related("created_by"))
    context = _context(request, team) | {
        "hooks": rows, "made": made, "secret": secret, "problems": problems, "chosen": {} if made else chosen,
    }  # fmt: skip
    return render(request, "notify/hooks.html", context, status=422 if problems else 200)


def _posted(request: HttpRequest) -> dict[str, Any]:
    name, url = (request.POST.get(key, "").replace("\0", "")[:1000] for key in ("name", "url"))
    return {"name": name, "url": url, "kinds": request.POST.getlist("kind")}


@require_http_methods(["GET", "HEAD", "POST"])
def hook(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    """One hook: its settings, and what was sent to it."""
    found = hook_for(request.user, slug, pk)
    chosen, problems = {"name": found.name, "url": found.url, "kinds": found.kinds}, list[Problem]()
    if request.method == "POST":
        chosen = _posted(request)
        try:
            services.change_hook(found, *chosen.values())
        except services.HookRefused as refusal:
            problems = [Problem("hook", str(refusal))]
        else:
            messages.success(request, f"{found.name} is saved.")
            return redirect("hook", slug, pk)
    context = _context(request, found.team) | {
        "hook": found, "chosen": chosen, "problems": problems, "deliveries": list(found.deliveries.all()[:SHOWN])
    }  # fmt: skip
    return render(request, "notify/hook.html", context, status=422 if problems else 200)


@require_POST
def remove(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    found = hook_for(request.user, slug, pk)
    found.delete()
    messages.success(request, f"{found.name} is removed. Nothing more is sent to it.")
    return redirect("team-hooks", slug)


@require_POST
def test(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    """Send a message that says that it is a test."""
    services.try_out(hook_for(request.user, slug, pk))
    messages.success(request, "A test is on its way. Reload this page to see what came of it.")
    return redirect("hook", slug, pk)


@require_POST
def again(request: HttpRequest, slug: str, pk: int, delivery: int) -> HttpResponse:
    """Send a message once more."""
    services.send_again(delivery_for(request.user, slug, pk, delivery))
    messages.success(request, "The message is on its way again.")
    return redirect("hook", slug, pk)
