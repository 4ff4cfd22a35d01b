"""Addresses of people: signing in and out."""

from __future__ import annotations

from django.urls import path

from stitchweb.teams.views import login_page, sign_out

urlpatterns = [
    path("login/", login_page, name="login"),
    path("logout/", sign_out, name="logout"),
]
