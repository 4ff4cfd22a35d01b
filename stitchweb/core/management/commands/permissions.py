"""manage.py permissions: who may do what, printed, written into docs/permissions.md, or compared with it."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from stitchweb.core.permissions import how_to_add
from stitchweb.core.permissions_page import page
from stitchweb.core.routes import addresses, without_row


class Command(BaseCommand):
    help = "Prints the permission table; --write puts it into docs/permissions.md, --check fails where that is another one."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--write", action="store_true")
        parser.add_argument("--check", action="store_true")

    def handle(self, *, write: bool, check: bool, **options: Any) -> None:
        if lacking := without_row(name for name, _ in addresses()):
            raise CommandError("\n".join(map(how_to_add, lacking)))
        path = settings.BASE_DIR / "docs" / "permissions.md"
        if write:
            path.write_text(page(), encoding="utf-8")
        elif not check:
            self.stdout.write(page(), ending="")
        elif not path.is_file() or path.read_text(encoding="utf-8") != page():
            raise CommandError("docs/permissions.md is not what the code does. Run: manage.py permissions --write")
