"""manage.py agent: drives runs. Any number of these, on any host that reaches database and broker."""

from __future__ import annotations

import warnings
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from stitchweb.celery import app


class Command(BaseCommand):
    help = "Starts an agent worker: it plans, writes and judges for runs, several at a time. Runs until stopped."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--threads", type=int, default=settings.AGENT_THREADS, help="runs driven at once")
        parser.add_argument("--name", default="agent")

    def handle(self, *, threads: int, name: str, **options: Any) -> None:
        # Nothing of a user's runs in this process, so being root in a container is no danger here.
        warnings.filterwarnings("ignore", message="You're running the worker with superuser privileges")
        app.worker_main(
            [
                *(
                    "--quiet",
                    "worker",
                    "--queues=agents",
                    "--pool=threads",
                    f"--concurrency={threads}",
                    f"--hostname={name}@%h",
                ),
                *("--loglevel=WARNING", "--without-gossip", "--without-mingle", "--without-heartbeat"),
            ]
        )
