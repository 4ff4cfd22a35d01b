"""manage.py seed_review: a synthetic review project, after seed_demo."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from stitchweb.review.demo import NothingToReview, seed_review


class Command(BaseCommand):
    help = "Adds a small review project over the synthetic runs of seed_demo, marked synthetic as they are."

    def handle(self, **options: Any) -> None:
        try:
            project, reviewer = seed_review()
        except NothingToReview as reason:
            raise CommandError(str(reason)) from None
        self.stdout.write(f"{project.name}: {project.items.count()} items, synthetic.")
        self.stdout.write(f"Sign in as a reviewer: manage.py login_link {reviewer.email}")
