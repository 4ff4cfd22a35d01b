"""Addresses for operators and for what watches the site."""

from __future__ import annotations

from django.urls import path
from django.views.generic.base import RedirectView

from stitchweb.operate.views import health, queue, runners, teams

urlpatterns = [
    path("operate/", RedirectView.as_view(pattern_name="operate-runners"), name="operate"),
    path("operate/runners/", runners.runners, name="operate-runners"),
    path("operate/runners/change", runners.change, name="operate-runner"),
    path("operate/queue/", queue.queue, name="operate-queue"),
    path("operate/teams/", teams.teams, name="operate-teams"),
    path("operate/teams/<slug:slug>/", teams.quota, name="operate-quota"),
    path("metrics", health.metrics, name="metrics"),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
]
