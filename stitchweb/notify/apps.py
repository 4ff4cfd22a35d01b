"""The app of notifications: it listens from the start, sends what waits, and forgets what is old."""

from __future__ import annotations

from django.apps import AppConfig


class NotifyConfig(AppConfig):
    name = "stitchweb.notify"

    def ready(self) -> None:
        from stitchweb.notify import receivers

        receivers.connect()
