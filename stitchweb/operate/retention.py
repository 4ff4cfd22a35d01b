"""What is kept how long: logs of ended runs, profiler reports, blobs that no run uses, drafts. By setting; 0 keeps for ever."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.core.files.storage import default_storage
from django.db import transaction
from django.db.models import Exists, Max, OuterRef
from django.utils import timezone

from agents.events import storable
from stitchweb.review.models import Assignment, Draft
from stitchweb.runs.history import view_of
from stitchweb.runs.models import ENDED, Artifact, Blob, Event, Run, Snapshot

# What a page shows from the fold alone, and nothing else is made of: lines of logs, and rounds of a timing that is told.
LOGS = ("log.lines", "timing.round")
UNUSED = timedelta(days=1)  # a blob without a run may be about to get one
AT_ONCE = 500


@dataclass(frozen=True)
class Forgotten:
    """How many rows went, or would go; `bytes`: of files and blobs."""

    events: int = 0
    artifacts: int = 0
    blobs: int = 0
    drafts: int = 0
    bytes: int = 0


def forget(dry_run: bool = False) -> Forgotten:
    """One pass. Safe beside a running site and to be stopped at any moment: each run, file and draft is a transaction."""
    artifacts, artifact_bytes = _artifacts(dry_run)
    blobs, blob_bytes = _blobs(dry_run)
    return Forgotten(_events(dry_run), artifacts, blobs, _drafts(dry_run), artifact_bytes + blob_bytes)


def _events(dry_run: bool) -> int:
    if not settings.KEEP_EVENTS_DAYS:
        return 0
    before = timezone.now() - timedelta(days=settings.KEEP_EVENTS_DAYS)
    logs = Event.objects.filter(run=OuterRef("pk"), kind__in=LOGS)
    count = 0
    for pk in Run.objects.filter(status__in=ENDED, ended_at__lt=before).filter(Exists(logs)).values_list("pk", flat=True):
        rows = Event.objects.filter(run_id=pk, kind__in=LOGS)
        if dry_run:
            count += rows.count()
            continue
        with transaction.atomic():
            Run.objects.select_for_update().get(pk=pk)
            view = view_of(pk)  # all of it, before a part goes: from now on this is what pages show
            kept = {"seq": view.seq, "view": storable(view.model_dump(mode="json"))}
            Snapshot.objects.update_or_create(run_id=pk, defaults=kept)
            count += rows._raw_delete(rows.db)  # type: ignore[attr-defined]  nothing refers to an event
    return count


def _artifacts(dry_run: bool) -> tuple[int, int]:
    if not settings.KEEP_FILES_DAYS:
        return 0, 0
    before = timezone.now() - timedelta(days=settings.KEEP_FILES_DAYS)
    old = Artifact.objects.filter(job__run__status__in=ENDED, job__run__ended_at__lt=before)
    count = size = 0
    for row in old.iterator(AT_ONCE):
        count, size = count + 1, size + row.size
        if not dry_run:
            name = row.file.name
            row.delete()  # the row first: a file without a row is found by nobody, a row without its file breaks a page
            default_storage.delete(name)
    return count, size


def _blobs(dry_run: bool) -> tuple[int, int]:
    """Blobs of runs that were deleted. By content, so one that any run uses stays."""
    if not settings.KEEP_FILES_DAYS:
        return 0, 0
    before = timezone.now() - max(UNUSED, timedelta(days=settings.KEEP_FILES_DAYS))
    unused = Blob.objects.filter(created_at__lt=before, runs=None)
    count = size = 0
    for pk, length, file in list(unused.values_list("pk", "size", "file")):
        if not dry_run:
            with transaction.atomic():
                if not Blob.objects.select_for_update().filter(pk=pk, runs=None).exists():
                    continue  # a run took it meanwhile
                Blob.objects.filter(pk=pk).delete()
            if file:
                default_storage.delete(file)
        count, size = count + 1, size + length
    return count, size


def _drafts(dry_run: bool) -> int:
    if not settings.KEEP_DRAFTS_DAYS:
        return 0
    before = timezone.now() - timedelta(days=settings.KEEP_DRAFTS_DAYS)
    quiet = Assignment.objects.annotate(last=Max("drafts__at")).filter(last__lt=before)
    drafts = Draft.objects.filter(assignment__in=list(quiet.values_list("pk", flat=True)))
    return drafts.count() if dry_run else drafts.delete()[1].get(Draft._meta.label, 0)
