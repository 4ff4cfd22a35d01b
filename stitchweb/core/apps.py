"""The core as an app: its checks are known before the first command."""

from __future__ import annotations

from django.apps import AppConfig


class CoreConfig(AppConfig):
    name = "stitchweb.core"

    def ready(self) -> None:
        from stitchweb.core import routes  # noqa: F401  registers its check
