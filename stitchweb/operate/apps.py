"""What this app does when the site starts: it has upkeep of its own."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig


class OperateConfig(AppConfig):
    name = "stitchweb.operate"

    def ready(self) -> None:
        from stitchweb.core.upkeep import hourly

        hourly.connect(_retention, dispatch_uid="operate.retention")


def _retention(**_: Any) -> None:
    from stitchweb.operate.retention import forget

    forget()
