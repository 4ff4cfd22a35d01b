"""manage.py forget_reviews: what is due to be forgotten of closed review projects is forgotten now.

`manage.py sweep` does it every hour.
"""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from stitchweb.review.services.retention import forget_overdue


class Command(BaseCommand):
    help = "Delete drafts, and forget who gave a label, in closed review projects whose days have passed."

    def handle(self, *args: Any, **options: Any) -> None:
        done = forget_overdue()
        for project in done:
            self.stdout.write(f"{project.name}: drafts are deleted, labels belong to numbers alone")
        if not done:
            self.stdout.write("Nothing is due.")
