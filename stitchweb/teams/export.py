"""Everything that is stored about a person, as a zip of JSON: each row of any table that refers to them."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from typing import Any

from django.apps import apps
from django.core.serializers.json import DjangoJSONEncoder
from django.db import models

from stitchweb.teams.models import User

# Secrets, and what only their server can read: of no use to the person, and of use to whoever finds the file.
_WITHHELD = ("password", "token", "secret", "sealed", "sha256", "digest")
_SECRET_TABLES = ("mfa.authenticator",)

ABOUT = """Everything that this site stores about you, one JSON file for each table with rows that refer to you.

In each row `_as` says what you are to it. Secrets and their digests are left out: passwords, tokens, keys, second factors.
Programs, runs and publications belong to teams; here are those that you made. Their texts are in the files to take home of
their pages.
"""


def export(user: User) -> bytes:
    """The zip. One query for each reference to a person that the site knows."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as bundle:
        bundle.writestr("README.txt", ABOUT)
        for name, rows in sorted(everything(user).items()):
            bundle.writestr(f"{name}.json", json.dumps(rows, indent=2, cls=DjangoJSONEncoder, ensure_ascii=False))
    return out.getvalue()


def everything(user: User) -> dict[str, list[dict[str, Any]]]:
    """Rows by the name of their table: the person themself, and whatever refers to them."""
    found: dict[str, list[dict[str, Any]]] = {"teams.user": [_row(user, "this is you")]}
    for model, field in references():
        rows = [_row(row, field) for row in model._base_manager.filter(**{field: user.pk}).order_by("pk").iterator()]
        if rows:
            found.setdefault(model._meta.label_lower, []).extend(rows)
    return found


def references() -> Iterator[tuple[type[models.Model], str]]:
    """Every field of the site that names a person."""
    for model in apps.get_models():
        for field in model._meta.get_fields():
            if isinstance(field, models.ForeignKey | models.ManyToManyField) and field.related_model is User:
                yield model, field.name


def _row(row: models.Model, role: str) -> dict[str, Any]:
    told: dict[str, Any] = {"_as": role}
    for field in row._meta.concrete_fields:
        secret = any(word in field.name for word in _WITHHELD) or isinstance(field, models.BinaryField)
        if not secret and not (row._meta.label_lower in _SECRET_TABLES and field.name == "data"):
            told[field.name] = field.value_from_object(row)
    return told
