"""manage.py retention: delete what is kept no longer."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from stitchweb.operate.retention import forget


class Command(BaseCommand):
    help = (
        "Deletes what KEEP_EVENTS_DAYS, KEEP_FILES_DAYS and KEEP_DRAFTS_DAYS keep no longer. The sweeper does it hourly, too."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="say what would go, delete nothing")

    def handle(self, *, dry_run: bool, **options: Any) -> None:
        if not (settings.KEEP_EVENTS_DAYS or settings.KEEP_FILES_DAYS or settings.KEEP_DRAFTS_DAYS):
            self.stdout.write("Everything is kept for ever: KEEP_EVENTS_DAYS, KEEP_FILES_DAYS and KEEP_DRAFTS_DAYS are 0.")
            return
        gone = forget(dry_run)
        verb = "would go" if dry_run else "went"
        self.stdout.write(
            f"{gone.events} events, {gone.artifacts} files of runs, {gone.blobs} unused blobs, {gone.drafts} drafts {verb}; "
            f"{gone.bytes / 2**20:.1f} MiB of files and blobs."
        )
