"""The app of reviews: what is scored blind is closed elsewhere, and after each migration the shipped rubrics are there."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class ReviewConfig(AppConfig):
    name = "stitchweb.review"

    def ready(self) -> None:
        from stitchweb.core.upkeep import hourly
        from stitchweb.core.withheld import Rule, add_rule
        from stitchweb.review.access import closed_programs, why_closed

        add_rule(Rule(closed_programs, why_closed))
        post_migrate.connect(_after_migrate, sender=self)
        hourly.connect(_forget)


def _after_migrate(**kwargs: Any) -> None:
    from stitchweb.review.services.rubrics import ensure_rubrics

    ensure_rubrics()


def _forget(**kwargs: Any) -> None:
    from stitchweb.review.services.retention import forget_overdue

    forget_overdue()
