"""The app of notifications: it listens from the start, sends what waits, and forgets what is old."""

from __future__ import annotations

from django.apps import AppConfig


class NotifyConfig(AppConfig):
    name = "stitchweb.notify"

    def ready(self) -> None:
        from stitchweb.core.leaving import Parting, add_parting
        from stitchweb.notify import receivers
        from stitchweb.notify.services import forget_name

        receivers.connect()
        add_parting(Parting(person=forget_name))
