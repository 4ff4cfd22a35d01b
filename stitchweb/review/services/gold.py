"""Gold items: brought into a project with their answers, and the gate that they are."""

from __future__ import annotations

from django.db import transaction

from stitchweb.review.gold import gold_items
from stitchweb.review.models import Gold, Item, Project, Reviewer
from stitchweb.review.permissions import MANAGE
from stitchweb.review.services.audit import record
from stitchweb.review.services.intake import Brought, bring_in
from stitchweb.review.services.projects import ProjectRefused, gold_for_all
from stitchweb.teams.access import require
from stitchweb.teams.models import User

WHY = "for calibration"


@transaction.atomic
def add_gold(user: User, project: Project) -> int:
    """Put the site's gold items into the queue that are not in it; returns how many came. Nobody owns their runs."""
    rows = {row.sha256: (row, item) for item in gold_items() if (row := _row(item))}
    came = bring_in(user, project, [row for row, _ in rows.values()], why=WHY, mine=False)
    for made in came:
        item = rows[made.sha256][1]
        Gold.objects.create(item=made, slug=item.slug, **item.key)
    Item.objects.filter(pk__in=[made.pk for made in came]).update(gold=True)
    gold_for_all(project)
    return len(came)


def _row(item: object) -> Brought:
    fields = Brought.model_fields.keys() - {"engineer", "origin"}
    content = {key: value for key, value in item.model_dump().items() if key in fields}  # type: ignore[attr-defined]
    return Brought(**content, origin="the gold items of this site")


@transaction.atomic
def clear(user: User, project: Project, number: int, cleared: bool) -> None:
    """Let a reviewer go on although their gold items are below the pass mark, or no more. ProjectRefused for no such number."""
    require(user, project.team_id, MANAGE)
    row = Reviewer.objects.select_for_update().filter(project=project, number=number).first()
    if row is None:
        raise ProjectRefused("There is no such reviewer in this project.")
    record(user, project, "clear", f"reviewer {number}", old={"cleared": row.cleared}, new={"cleared": cleared})
    row.cleared = cleared
    row.save(update_fields=["cleared"])
