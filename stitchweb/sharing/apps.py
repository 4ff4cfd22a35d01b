"""The app of publications: what is deleted is not found any more, and what the index lost is put back."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_delete


class SharingConfig(AppConfig):
    name = "stitchweb.sharing"

    def ready(self) -> None:
        from stitchweb.core import upkeep
        from stitchweb.sharing.services.indexing import index_missing

        post_delete.connect(_forget, sender=self.get_model("Publication"))
        upkeep.hourly.connect(index_missing)


def _forget(instance: Any, **kwargs: Any) -> None:
    from stitchweb.sharing.search import forget

    forget([instance.pk])
