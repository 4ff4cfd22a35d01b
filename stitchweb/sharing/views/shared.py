"""What a share link shows, to whoever holds it. Nothing here asks who is signed in, and nothing says whose it is."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import wraps
from typing import Any

from allauth.core.internal.httpkit import get_client_ip
from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotModified
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables

from stitchweb.runs.carry import answer
from stitchweb.sharing import sheet
from stitchweb.sharing.access import LinkGone, link_of
from stitchweb.sharing.card import badge, card, words_of
from stitchweb.sharing.forms import PasswordForm
from stitchweb.sharing.models import Content, ShareLink
from stitchweb.sharing.services.linking import LinkRefused, TooManyTries, count_view, try_password, unlocked_word
from stitchweb.sharing.take_home import given_of, public_wheel_of, sentence_of
from stitchweb.sharing.views.files import plain

View = Callable[..., HttpResponse]


def unindexed(view: View) -> View:
    """No search engine keeps it, no link on it tells where its reader came from, and no cache keeps it for somebody else."""

    @wraps(view)
    def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            response = view(request, *args, **kwargs)
        except LinkGone as gone:
            response = render(request, "sharing/gone.html", {"user": AnonymousUser(), "reason": str(gone)}, status=410)
        response["X-Robots-Tag"] = "noindex, nofollow, noarchive"
        # To itself it must be told: a browser that tells nobody sends the password's form as from nowhere, which is refused.
        response["Referrer-Policy"] = "same-origin"
        response.headers.setdefault("Cache-Control", "private, no-store")
        return response

    return wrapped


def _unlocked(request: HttpRequest, link: ShareLink) -> bool:
    return not link.password or request.session.get(f"share:{link.pk}") == unlocked_word(link)


def _need(request: HttpRequest, token: str, part: str) -> ShareLink:
    """The link, if it shows this part and the visitor opened it. Http404 otherwise."""
    link = link_of(token)
    if not getattr(link, f"shows_{part}") or not _unlocked(request, link):
        raise Http404("This link does not show that, or its password was not given yet. Open the page itself first.")
    return link


@unindexed
@sensitive_post_parameters("password")
@sensitive_variables("form")
def shared(request: HttpRequest, token: str) -> HttpResponse:
    """GET: the page, or the question for its password. POST: the password."""
    link = link_of(token)
    if request.method == "POST" and link.password:
        form = PasswordForm(request.POST)
        word = form.cleaned_data["password"] if form.is_valid() else ""
        try:
            try_password(link, word, get_client_ip(request) or "nowhere")
        except LinkRefused as refusal:
            return _locked(request, token, str(refusal), 429 if isinstance(refusal, TooManyTries) else 403)
        request.session[f"share:{link.pk}"] = unlocked_word(link)
        return redirect("shared", token)
    if not _unlocked(request, link):
        return _locked(request, token, "", 200)
    if request.method == "GET":
        count_view(link)
    return render(request, "sharing/shared.html", _page(request, link, token))


def _locked(request: HttpRequest, token: str, refused: str, status: int) -> HttpResponse:
    context = {"user": AnonymousUser(), "token": token, "refused": refused, "many": status == 429}
    return render(request, "sharing/locked.html", context, status=status)


def _page(request: HttpRequest, link: ShareLink, token: str) -> dict[str, Any]:
    row = link.publication
    content = Content.objects.get(publication=row)
    page = reverse("shared", args=[token])
    context: dict[str, Any] = {
        "user": AnonymousUser(), "row": row, "link": link, "page": page, "token": token,
        "address": f"{settings.SITE_URL}{page}",
        "picture": f"{settings.SITE_URL}{reverse('shared-card', args=[token])}",
        "said": sentence_of(row) if link.shows_numbers else "A verified PyTorch program.",
        "open": not link.password, "picture_type": "image/svg+xml",
    }  # fmt: skip
    if link.shows_numbers:
        context |= {"read": sheet.readout(row), "timing": sheet.timing_of(row, content), "device": sheet.device_of(content)}
    if link.shows_code:
        files, source = sheet.texts_of(row, content), sheet.source_of(row, content)
        context["code"] = sheet.code_of(files, source, request.GET.get("file", ""), request.GET.get("against", ""))
        context["wheel"] = given_of(row).filename if "model_new.py" in content.files else ""
    if link.shows_profile:
        place: Callable[[str], str] = lambda name: reverse("shared-profile-file", args=[token, name])  # noqa: E731
        context["profile"] = sheet.profile_of(row, content, page, place, request.GET.dict())
    return context


@unindexed
def shared_file(request: HttpRequest, token: str, path: str) -> HttpResponse:
    link = _need(request, token, "code")
    return plain(link.publication, path)


@unindexed
def shared_wheel(request: HttpRequest, token: str, name: str) -> HttpResponse:
    link = _need(request, token, "code")
    row = link.publication
    if name != given_of(row).filename:
        raise Http404("There is no such file behind this link.")
    return public_wheel_of(row, Content.objects.get(publication=row), link.shows_numbers)


@unindexed
def shared_profile_file(request: HttpRequest, token: str, name: str) -> HttpResponse:
    link = _need(request, token, "profile")
    row = link.publication
    return answer(sheet.profile_summary(row, Content.objects.get(publication=row)), name, str(row))


def _numbers(link: ShareLink) -> bool:
    """Whether its pictures may say numbers: they are seen without a password."""
    return link.shows_numbers and not link.password


@unindexed
def shared_badge(request: HttpRequest, token: str) -> HttpResponse:
    """An SVG for a README. Never stale: whoever keeps it asks again whether it changed."""
    link = link_of(token)
    row = link.publication
    if link.password:
        return _picture(request, badge("StitchWeb", "shared with a password"))
    return _picture(request, badge(row.name, words_of(row, _numbers(link))))


@unindexed
def shared_card(request: HttpRequest, token: str) -> HttpResponse:
    link = link_of(token)
    if link.password:
        return _picture(request, badge("StitchWeb", "shared with a password"))
    return _picture(request, card(link.publication, _numbers(link)))


def _picture(request: HttpRequest, svg: str) -> HttpResponse:
    tag = f'"{hashlib.sha256(svg.encode()).hexdigest()[:32]}"'
    same = tag in request.headers.get("If-None-Match", "")
    response = HttpResponseNotModified() if same else HttpResponse(svg, content_type="image/svg+xml")
    response["ETag"] = tag
    response["Cache-Control"] = "public, no-cache, max-age=0"
    response["Content-Security-Policy"] = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
    response["Cross-Origin-Resource-Policy"] = "cross-origin"
    return response


def robots(request: HttpRequest) -> HttpResponse:
    """Search engines may look at nothing but shared pages, which tell them to keep none: what they may not read they could list
    by its address alone."""
    return HttpResponse("User-agent: *\nAllow: /s/\nDisallow: /\n", content_type="text/plain; charset=utf-8")
