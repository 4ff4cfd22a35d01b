"""The agent worker's tasks. Thin: a message names a row; what came of it stands there."""

from __future__ import annotations

from contextlib import suppress

from stitchweb.celery import app
from stitchweb.datasets.models import Export, Release
from stitchweb.datasets.progress import Refused
from stitchweb.datasets.services.releases import MAKE_EXPORT, MAKE_RELEASE, make_export, make_release


@app.task(name=MAKE_RELEASE)
def release_task(pk: int) -> None:
    row = Release.objects.select_related("team").filter(pk=pk).first()
    if row:
        with suppress(Refused):  # the row says why
            make_release(row)


@app.task(name=MAKE_EXPORT)
def export_task(pk: int) -> None:
    row = Export.objects.select_related("release__team").filter(pk=pk).first()
    if row:
        with suppress(Refused):
            make_export(row)
