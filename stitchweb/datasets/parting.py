"""What datasets leave behind when a team goes: the files of its releases, exports and judges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.core.files.storage import default_storage
from django.db import transaction

from stitchweb.core.leaving import Parting
from stitchweb.datasets.models import Export, Judge, Release


def _team(team: Any) -> Callable[[], None]:
    """Afterwards: their files, but for those that another team's row names, too (a file is named by its content)."""
    theirs = (Release.objects.filter(team=team), Export.objects.filter(release__team=team), Judge.objects.filter(team=team))
    names = {name for rows in theirs for name in rows.exclude(file="").values_list("file", flat=True)}

    def after() -> None:
        left = (model.objects.filter(file__in=names).values_list("file", flat=True) for model in (Release, Export, Judge))
        kept = {name for rows in left for name in rows}
        for name in names - kept:
            transaction.on_commit(lambda name=name: default_storage.delete(name))

    return after


PARTING = Parting(team=_team)
