"""manage.py settings_table: the documented settings, printed or written into docs/settings.md."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from stitchweb.core.settings_page import page


class Command(BaseCommand):
    help = "Prints every setting with its meaning; --write puts the page into docs/settings.md."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--write", action="store_true")

    def handle(self, *, write: bool, **options: Any) -> None:
        if write:
            (settings.BASE_DIR / "docs" / "settings.md").write_text(page())
        else:
            self.stdout.write(page(), ending="")
