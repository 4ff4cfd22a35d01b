"""manage.py login_link: a sign-in that works once."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from stitchweb.teams.models import User
from stitchweb.teams.services import make_login_link


class Command(BaseCommand):
    help = "Prints a link that signs somebody in once within a day. Without an address: the only person there is."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("email", nargs="?", default="")

    def handle(self, *, email: str, **options: Any) -> None:
        people = User.objects.filter(is_active=True)
        people = people.filter(email=email.strip().lower()) if email else people
        found = list(people[:2])
        if not found:
            raise CommandError(
                f"Nobody here has the address {email!r}." if email else "There is nobody yet: manage.py up makes somebody."
            )
        if len(found) > 1:
            raise CommandError("There are several people. Name the address: manage.py login_link somebody@example.org")
        self.stdout.write(f"{settings.SITE_URL}{make_login_link(found[0])}")
