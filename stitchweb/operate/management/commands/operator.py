"""manage.py operator: who runs the site."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from stitchweb.teams.models import User


class Command(BaseCommand):
    help = "Lets a person see and change runners, queue and quotas of the whole site (/operate/), or, with --remove, no more."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("email")
        parser.add_argument("--remove", action="store_true")

    def handle(self, *, email: str, remove: bool, **options: Any) -> None:
        if not User.objects.filter(email=email.strip().lower()).update(is_staff=not remove):
            raise CommandError(f"Nobody here has the address {email}. They have to have an account first.")
        self.stdout.write(f"{email} is {'no operator any more' if remove else 'an operator now'}.")
