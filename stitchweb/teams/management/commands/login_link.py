"""manage.py login_link: a sign-in that works once."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.core.validators import validate_email
from django.db import transaction

from stitchweb.core.embedded import running
from stitchweb.teams.models import User
from stitchweb.teams.services import create_team, create_user, make_login_link

MAX_NAMED = 10


class Command(BaseCommand):
    help = "Prints a link that signs somebody in once within a day. Without an address: the only person there is."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("email", nargs="?", default="")
        parser.add_argument("--create", action="store_true", help="make the person, with a team of their own, if there is none")

    def handle(self, *, email: str, create: bool, **options: Any) -> None:
        if create:
            _make(email.strip().lower())
        people = User.objects.filter(is_active=True)
        people = people.filter(email=email.strip().lower()) if email else people
        found = list(people.order_by("pk")[: MAX_NAMED + 1])
        if not found:
            nobody = f"Nobody here has the address {email!r}." if email else "There is nobody yet."
            raise CommandError(f"{nobody} To make somebody: manage.py login_link {email or 'somebody@example.org'} --create")
        if len(found) > 1:
            named = ", ".join(person.email for person in found[:MAX_NAMED]) + (" and others" if len(found) > MAX_NAMED else "")
            raise CommandError(f"There are several people: {named}. Name one: manage.py login_link {found[0].email}")
        site = running.address(settings.DATA_DIR, settings.BROKER_SOCKET) or settings.SITE_URL
        self.stdout.write(f"{site}{make_login_link(found[0])}")


@transaction.atomic
def _make(email: str) -> None:
    """The person of this address with a team to work in; one who is there already stays as they are."""
    try:
        validate_email(email)
    except ValidationError:
        raise CommandError(f"{email!r} is no address. Give one: manage.py login_link somebody@example.org --create") from None
    if not User.objects.filter(email=email).exists():
        create_team(create_user(email), "My team")
