"""The app of the pages about models. It has no tables of its own."""

from __future__ import annotations

from django.apps import AppConfig


class StudioConfig(AppConfig):
    name = "stitchweb.studio"
