"""The app of the API: what was kept for repeated requests is forgotten after a day."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig


class ApiConfig(AppConfig):
    name = "stitchweb.api"

    def ready(self) -> None:
        from stitchweb.core.upkeep import hourly

        hourly.connect(_forget)


def _forget(**kwargs: Any) -> None:
    from stitchweb.api.once import forget

    forget()
