"""The app of reviews: after each migration the shipped rubrics are in the database."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class ReviewConfig(AppConfig):
    name = "stitchweb.review"

    def ready(self) -> None:
        post_migrate.connect(_after_migrate, sender=self)


def _after_migrate(**kwargs: Any) -> None:
    from stitchweb.review.services.rubrics import ensure_rubrics

    ensure_rubrics()
