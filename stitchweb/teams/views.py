"""Signing in and out."""

from __future__ import annotations

from django.contrib.auth import logout
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe


@require_safe
def login_page(request: HttpRequest) -> HttpResponse:
    """Says how to get in: by a link. Those who are in go on to the library."""
    if request.user.is_authenticated:
        return redirect("library")
    return render(request, "teams/login.html", {"left": "left" in request.GET})


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    logout(request)
    return redirect("/login/?left")
