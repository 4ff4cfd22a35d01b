"""Rubric versions enter the database, and stay as they were once somebody scores under them."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import transaction

from stitchweb.review.models import Adjudication, Item, Project, Review, Rubric
from stitchweb.review.permissions import MANAGE
from stitchweb.review.rubric import RubricContent, changed, shipped
from stitchweb.review.services.audit import record
from stitchweb.review.services.projects import ProjectRefused
from stitchweb.teams.access import require
from stitchweb.teams.models import User


class RubricFrozen(Exception):
    """A used version was to be changed. The message says what to do instead."""


@transaction.atomic
def ensure_rubrics(contents: Sequence[RubricContent] | None = None) -> list[Rubric]:
    """The rows of these rubrics, by default of all that are shipped; made where missing, renewed where nothing uses them yet.

    RubricFrozen when the text of a used version differs: then nothing is stored.
    """
    return [_ensured(content) for content in (shipped() if contents is None else contents)]


@transaction.atomic
def move_to(user: User, project: Project, rubric: Rubric) -> int:
    """Score under another version of the same rubric from now on. Returns how many labels it touches.

    A touched label stays, marked, and its item wants one more: from somebody who has not seen it, because its reviewer is not
    blind any more. Labels that nothing of the change touches go on counting. ProjectRefused for another rubric or
    an older version.
    """
    require(user, project.team_id, MANAGE)
    project = Project.objects.select_for_update().select_related("rubric").get(pk=project.pk)
    if rubric.key != project.rubric.key or rubric.version <= project.rubric.version:
        raise ProjectRefused(f"The project is at {project.rubric}. It can go on to a newer version of the same rubric only.")
    touched = changed(project.rubric.parsed, rubric.parsed)
    record(user, project, "rubric", old={"rubric": str(project.rubric)}, new={"rubric": str(rubric)})
    project.rubric = rubric
    project.save(update_fields=["rubric"])
    count = 0
    rows = Review.objects.filter(item__project=project, superseded=False).prefetch_related("ratings")
    for review in rows.iterator(chunk_size=500):
        said = {(r.dimension, str(r.level)) for r in review.ratings.all()} | {("hack", review.hack_level)}
        new = {key for key, _ in touched} - {key for key, _ in said}  # a dimension that it does not have at all
        if said & touched or new - {"hack"}:
            Review.objects.filter(pk=review.pk).update(superseded=True)
            item = Item.objects.select_for_update().get(pk=review.item_id)
            item.opened |= item.taken >= item.wanted
            item.wanted += 1
            item.save(update_fields=["wanted", "opened"])
            count += 1
    for final in Adjudication.objects.filter(item__project=project, superseded=False):
        said = {(key, str(level)) for key, level in final.levels.items()} | {("hack", final.hack_level)}
        if said & touched:
            Adjudication.objects.filter(pk=final.pk).update(superseded=True)
    return count


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
