"""The trail: what somebody did in a project, with what stood before and after. Called inside the transaction that does it."""

from __future__ import annotations

from typing import Any

from stitchweb.review.models import Change, Item, Project
from stitchweb.teams.models import User


def record(
    user: User | None, project: Project | int, act: str, about: str = "", *, old: dict[str, Any] | None = None,
    new: dict[str, Any] | None = None,
) -> None:  # fmt: skip
    """Add a row. Fields that are the same before and after are left out; where none is left of both, nothing is added."""
    before, after = old or {}, new or {}
    if old is not None and new is not None:
        before = {k: v for k, v in before.items() if after.get(k, ...) != v}
        after = {k: v for k, v in after.items() if (old or {}).get(k, ...) != v}
        if not before and not after:
            return
    pk = project if isinstance(project, int) else project.pk
    Change.objects.create(project_id=pk, user=user, act=act, about=about[:120], old=before, new=after)


def named(item: Item) -> str:
    """An item in the trail."""
    return f"item {item.pk}: {item.candidate} of run {item.run_id}"
