"""manage.py restore: a backup into an empty database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from stitchweb.operate.backup import BackupError, restore
from stitchweb.runs.sweeper import release_everything


class Command(BaseCommand):
    help = "Fills an empty, migrated database and its file storage from FILE. Stop the site's processes first."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument("--with-secrets", action="store_true", help="also put the archive's secrets into DATA_DIR")

    def handle(self, *, file: Path, with_secrets: bool, **options: Any) -> None:
        try:
            counts = restore(file, settings.DATA_DIR if with_secrets else None)
        except (BackupError, OSError) as error:
            raise CommandError(f"Nothing was restored: {error}") from error
        release_everything()  # whoever held a run or a job at that moment does not any more
        self.stdout.write(f"{sum(counts.values())} rows in {sum(1 for n in counts.values() if n)} tables are restored.")
        self.stdout.write("Runs that were under way go on when the site starts. Sign in again: sessions are not kept.")
