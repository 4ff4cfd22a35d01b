"""Rubric versions enter the database, and stay as they were once somebody scores under them."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import transaction

from stitchweb.review.models import Rubric
from stitchweb.review.rubric import RubricContent, shipped


class RubricFrozen(Exception):
    """A used version was to be changed. The message says what to do instead."""


@transaction.atomic
def ensure_rubrics(contents: Sequence[RubricContent] | None = None) -> list[Rubric]:
    """The rows of these rubrics, by default of all that are shipped; made where missing, renewed where nothing uses them yet.

    RubricFrozen when the text of a used version differs: then nothing is stored.
    """
    return [_ensured(content) for content in (shipped() if contents is None else contents)]


def _ensured(content: RubricContent) -> Rubric:
    whole = content.model_dump(mode="json")
    row, made = Rubric.objects.select_for_update().get_or_create(
        key=content.key, version=content.version, defaults={"title": content.title, "content": whole}
    )
    if made or row.content == whole:
        return row
    if row.projects.exists():
        raise RubricFrozen(
            f"The rubric {row} is used by a review project, so its text cannot change: scores made under it would lose their"
            f" meaning. Undo the change in {content.key}-{content.version}.toml and put it into"
            f" {content.key}-{content.version + 1}.toml."
        )
    row.title, row.content = content.title, whole
    row.save(update_fields=["title", "content"])
    return row
