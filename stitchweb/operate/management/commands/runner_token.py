"""manage.py runner_token: the line with which a runner joins."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from stitchweb.runs import accounts, hosts


class Command(BaseCommand):
    help = "Makes a token that joins one runner to QUEUES, once and within an hour, and prints the line to type on its machine."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("queues", nargs="+", metavar="QUEUE", help="run.cpu, run.sm_90, … or build.cuda")
        parser.add_argument(
            "--to", type=Path, metavar="FILE", help="write the token there, readable by its owner, and print nothing"
        )

    def handle(self, *, queues: list[str], to: Path | None, **options: Any) -> None:
        try:
            accounts.check()
            token = hosts.make_token(queues, None)
        except (accounts.NoAccounts, hosts.Refused) as why:
            raise CommandError(str(why)) from why
        if to is None:
            self.stdout.write(f"python -m gpu_runner.serve --join {settings.SITE_URL} {token}")
            return
        to.unlink(missing_ok=True)
        with os.fdopen(os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(token)
