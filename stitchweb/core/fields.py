"""Fields of more than one app."""

from __future__ import annotations

from typing import Any

from django.db import models


class StoredName(models.CharField):
    """The name of a file in the file storage, empty for none. A backup holds the file that a row names."""

    def deconstruct(self) -> tuple[str, str, Any, Any]:
        name, _, args, kwargs = super().deconstruct()
        return name, "django.db.models.CharField", args, kwargs  # to the database it is nothing else
