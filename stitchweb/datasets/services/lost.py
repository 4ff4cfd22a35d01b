"""Work whose message or worker was lost, sent again with each sweep."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db.models import Q
from django.utils import timezone

from stitchweb.datasets.models import Export, Judge, Release, Work, WorkState
from stitchweb.datasets.services.judging import MAKE_JUDGE
from stitchweb.datasets.services.releases import MAKE_EXPORT, MAKE_RELEASE
from stitchweb.datasets.services.work import SILENT, sent

KINDS: tuple[tuple[type[Work], str], ...] = ((Release, MAKE_RELEASE), (Export, MAKE_EXPORT), (Judge, MAKE_JUDGE))
PATIENCE = timedelta(minutes=1)  # in the queue, before it is sent once more


def send_lost(**kwargs: Any) -> None:
    """What waits for long, or whose worker has said nothing for long, is sent to another. Three queries if there is nothing."""
    now = timezone.now()
    waits = Q(state=WorkState.QUEUED, heard_at__lt=now - PATIENCE)
    silent = Q(state=WorkState.RUNNING, heard_at__lt=now - SILENT)
    for model, task in KINDS:
        lost = model.objects.filter(waits | silent)  # type: ignore[attr-defined]
        for row in lost[:50]:
            if lost.filter(pk=row.pk).update(state=WorkState.QUEUED, heard_at=now, doing=""):
                sent(task, row)
