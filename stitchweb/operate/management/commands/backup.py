"""manage.py backup: the whole site into one file, while it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from stitchweb.operate.backup import BackupError, backup


class Command(BaseCommand):
    help = "Writes all rows and stored files of one moment into FILE (tar.gz). The site may run meanwhile."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument("--with-secrets", action="store_true", help="also SECRET_KEY and MODEL_KEYS_SECRET of DATA_DIR")

    def handle(self, *, file: Path, with_secrets: bool, **options: Any) -> None:
        try:
            counts = backup(file, settings.DATA_DIR if with_secrets else None)
        except (BackupError, OSError) as error:
            raise CommandError(f"There is no backup: {error}") from error
        rows = sum(count for name, count in counts.items() if name != "files")
        self.stdout.write(f"{file}: {rows} rows, {counts['files']} files, {file.stat().st_size / 2**20:.1f} MiB")
        if not with_secrets:
            self.stdout.write(
                "Not in it: SECRET_KEY and MODEL_KEYS_SECRET. Without the latter, stored keys of models are lost."
            )
