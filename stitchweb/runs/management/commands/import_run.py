"""manage.py import_run: a headless run becomes a run of the site."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from stitchweb.core.embedded import running
from stitchweb.runs.first import local_user
from stitchweb.runs.importing import CannotImport, import_folder
from stitchweb.teams.models import Membership, Role, Team, User


class Command(BaseCommand):
    help = "Takes in the folder that `python -m agents optimize --out DIR` left, as a full run with its page."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("folder", type=Path)
        parser.add_argument("--team", default="", help="the team's slug; by default the local person's first team")

    def handle(self, *, folder: Path, team: str, **options: Any) -> None:
        into, owner = self._who(team)
        try:
            run = import_folder(folder, into, owner)
        except CannotImport as error:
            raise CommandError(str(error)) from error
        site = running.address(settings.DATA_DIR, settings.BROKER_SOCKET) or settings.SITE_URL
        self.stdout.write(f"{site}/runs/{run.pk}/")

    @staticmethod
    def _who(slug: str) -> tuple[Team, User]:
        if not slug:
            user = local_user()
            return user.teams.order_by("pk")[0], user
        owner = Membership.objects.filter(team__slug=slug, role=Role.OWNER).select_related("team", "user").first()
        if owner is None:
            raise CommandError(f"There is no team with the slug {slug!r}, or it has no owner.")
        return owner.team, owner.user
