"""The search index made whole: a backup holds rows, and the index is none."""

from __future__ import annotations

from typing import Any

from django.db.models.expressions import RawSQL

from stitchweb.sharing import search
from stitchweb.sharing.models import Publication
from stitchweb.sharing.sheet import texts_of


def index_missing(**kwargs: Any) -> int:
    """Index the publications that the index does not know; how many there were. One query when there are none."""
    known = RawSQL(search.keys(), [])  # noqa: S611  a constant
    rows = Publication.objects.exclude(pk__in=known).select_related("content").prefetch_related("tags").order_by("pk")
    count = 0
    while some := list(rows.all()[:50]):
        for row in some:
            texts = texts_of(row, row.content).values()
            search.put(row.pk, row.name, [tag.word for tag in row.tags.all()], row.notes, texts)
        count += len(some)
    return count
