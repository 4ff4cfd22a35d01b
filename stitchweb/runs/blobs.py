"""The shell's BlobStore: bytes by content, in the database when small, in the file storage when large."""

from __future__ import annotations

import hashlib

from django.core.files.base import ContentFile
from django.core.files.storage import default_storage

from gpu_runner.contracts import BlobRef
from stitchweb.runs.models import Blob, Run

INLINE = 256 * 1024


class RunBlobs:
    """Blobs of one run, as `agents.state.BlobStore`. What is put belongs to the run from then on.

    One query per unknown `get`, three per new `put`; what went through is remembered for the life of the object.
    """

    def __init__(self, run_id: int) -> None:
        self._run_id = run_id
        self._seen: dict[str, bytes] = {}

    def put(self, data: bytes) -> BlobRef:
        sha256 = hashlib.sha256(data).hexdigest()
        if sha256 not in self._seen:
            if not Blob.objects.filter(pk=sha256).exists():
                _store(sha256, data)
            Blob.runs.through.objects.bulk_create(
                [Blob.runs.through(blob_id=sha256, run_id=self._run_id)], ignore_conflicts=True
            )
            self._seen[sha256] = data
        return BlobRef(sha256=sha256, size=len(data))

    def get(self, ref: BlobRef) -> bytes:
        """KeyError when the run has no such blob."""
        if ref.sha256 not in self._seen:
            blob = Blob.objects.filter(pk=ref.sha256, runs=self._run_id).first()
            if blob is None:
                raise KeyError(ref.sha256)
            self._seen[ref.sha256] = read(blob)
        return self._seen[ref.sha256]


def read(blob: Blob) -> bytes:
    """The bytes of a blob row. OSError when the file storage lost it."""
    if blob.data is not None:
        return bytes(blob.data)
    with default_storage.open(blob.file) as file:
        return bytes(file.read())


def link(refs: list[BlobRef], run: Run) -> None:
    """Let a run use blobs that are stored already. Two queries."""
    known = Blob.objects.filter(pk__in={ref.sha256 for ref in refs}).values_list("pk", flat=True)
    through = Blob.runs.through
    through.objects.bulk_create([through(blob_id=pk, run_id=run.pk) for pk in known], ignore_conflicts=True)


def _store(sha256: str, data: bytes) -> None:
    row = Blob(sha256=sha256, size=len(data))
    if len(data) <= INLINE:
        row.data = data
    else:
        row.file = default_storage.save(f"blobs/{sha256[:2]}/{sha256}", ContentFile(data))
    Blob.objects.bulk_create([row], ignore_conflicts=True)  # two writers of the same bytes are no conflict
