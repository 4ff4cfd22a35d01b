"""manage.py create_release: freezes a team's labels."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from stitchweb.datasets.progress import Refused
from stitchweb.datasets.services.placing import Leaking
from stitchweb.datasets.services.releases import make_release, request_release
from stitchweb.datasets.teams import team_named


class Command(BaseCommand):
    help = "Freezes a team's labels as a release: hashed, with splits that do not leak. By default the demo team's."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="of the release, such as 2026-11; never used twice in a team")
        parser.add_argument("--team", default="", help="slug of the team")

    def handle(self, *, name: str, team: str, **options: Any) -> None:
        try:
            row = request_release(None, team_named(team), name, send=False)
            make_release(row, self._tell)
        except Leaking as refusal:
            raise CommandError("\n".join([str(refusal), *map(str, refusal.leaks[1:])])) from None
        except Refused as refusal:
            raise CommandError(str(refusal)) from None
        self.stdout.write(f"{row.name} of {row.team.slug}: {row.sha256}")
        for config, counts in row.counts.items():
            self.stdout.write(f"  {config:18}" + "  ".join(f"{split} {n}" for split, n in counts.items()))
        for change in row.changes[:20]:
            self.stdout.write(f"  {change}")

    def _tell(self, doing: str, at: int = 0, of: int = 0) -> None:
        if doing != getattr(self, "_told", ""):
            self._told = doing
            self.stderr.write(doing)
