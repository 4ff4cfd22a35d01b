"""What is forgotten of a closed project when its time is up: drafts, and who gave a label. The labels themselves stay."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from stitchweb.review.models import Adjudication, Assignment, Change, Draft, Project, Remark, Review, Reviewer, Typed
from stitchweb.review.services.audit import record

OF_REVIEWERS = ("submit", "skip", "revise", "remark", "hunch")  # acts whose author the trail forgets as well
OF_LABELS = (*OF_REVIEWERS, "settle")


def forget_overdue() -> list[Project]:
    """Forget in every closed project whose days have passed. Returns those that this call changed."""
    now = timezone.now()
    closed = Project.objects.filter(closed_at__isnull=False, keep_days__isnull=False).order_by("pk")
    due = [p for p in closed if p.closed_at and p.closed_at + timedelta(days=p.keep_days or 0) <= now]
    return [project for project in due if forget(project)]


@transaction.atomic
def forget(project: Project) -> bool:
    """Delete drafts and cut every link from label to person; numbers stay. False when nothing was left to forget."""
    project = Project.objects.select_for_update().get(pk=project.pk)
    drafts = Draft.objects.filter(assignment__item__project=project)
    mine = {"item__project": project, "user__isnull": False}
    held = Assignment.objects.filter(**mine)
    if not drafts.exists() and not held.exists() and not Reviewer.objects.filter(project=project).exists():
        return False
    Typed.objects.filter(item__project=project).delete()
    held.update(draft=None)
    drafts.delete()
    for rows in (held, Review.objects.filter(**mine), Adjudication.objects.filter(**mine), Remark.objects.filter(**mine)):
        rows.update(user=None)
    Change.objects.filter(project=project, act__in=OF_LABELS).update(user=None)
    # Numbers are given in the order of these lists, so the lists would tell whose they are.
    for change in Change.objects.filter(project=project, act__in=("reviewers", "adjudicators")):
        change.old, change.new = _counted(change.old), _counted(change.new)
        change.save(update_fields=["old", "new"])
    Reviewer.objects.filter(project=project).delete()
    record(None, project, "forget")
    return True


def _counted(said: dict[str, Any]) -> dict[str, Any]:
    people = said.get("people")
    return said | {"people": len(people)} if isinstance(people, list) else said
