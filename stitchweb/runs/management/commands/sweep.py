"""manage.py sweep: send again what was lost, again and again."""

from __future__ import annotations

import logging
import threading
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.db import DatabaseError, connection

from stitchweb.core.upkeep import often
from stitchweb.runs.sweeper import forget, sweep

logger = logging.getLogger(__name__)
FORGET_EVERY = 720  # sweeps


class Command(BaseCommand):
    help = "Sends again what was lost and frees what a dead worker held. Runs until stopped; one process per site is enough."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--once", action="store_true", help="sweep once and stop")
        parser.add_argument("--every", type=float, default=5.0, metavar="SECONDS")

    def handle(self, *, once: bool, every: float, **options: Any) -> None:
        pause, number = threading.Event(), 0
        while True:
            try:
                sweep()
                often.send_robust(sender=Command)
                if number % FORGET_EVERY == 0:
                    forget()
            except DatabaseError:
                logger.warning("the database does not answer; the next sweep tries again", exc_info=True)
                connection.close()
            number += 1
            if once or pause.wait(every):
                return
