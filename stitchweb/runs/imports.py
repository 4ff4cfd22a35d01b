"""What people do with reports of their own: have them read and kept, and throw them away."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Sequence
from typing import Any

from django.core.files.uploadedfile import UploadedFile

from stitchweb.runs.access import profile_for, profiles_for
from stitchweb.runs.models import ImportedProfile
from stitchweb.runs.reading import Range, ReportRefused, read_reports
from stitchweb.teams.models import User

MOST = 100  # profiles that one person may keep


def import_profile(user: User, files: Sequence[UploadedFile], wanted: Range, name: str = "") -> ImportedProfile:
    """Reads the reports and keeps their summary for this person. ReportRefused with a sentence when it cannot.

    The same files with the same range are one profile, however often they are sent. No transaction is open while they are read.
    """
    if not files:
        raise ReportRefused("No file was chosen: drop a report or choose one.")
    key = _key(files, wanted)
    kept = profiles_for(user)
    if known := kept.filter(key=key).first():
        return known
    if kept.count() >= MOST:
        raise ReportRefused(f"You keep {MOST} profiles, as many as one person may: delete one of them first.")
    summary = read_reports(files, wanted)
    title = name.strip() or " and ".join(posixpath.basename(str(f.name).replace("\\", "/")) for f in files)
    row, _ = ImportedProfile.objects.get_or_create(
        owner=user, key=key,
        defaults={
            "name": title[:120], "size": sum(f.size or 0 for f in files), "tool": str(summary["source"].get("tool") or "")[:40],
            "sentence": _sentence(summary), "summary": summary,
        },
    )  # fmt: skip
    return row


def delete_profile(user: User, pk: int) -> str:
    """Forgets a profile of this person; its name. Http404 for anybody else's."""
    row = profile_for(user, pk)
    name = row.name
    row.delete()
    return name


def _sentence(summary: dict[str, Any]) -> str:
    verdict = summary.get("verdict")
    return str(verdict.get("sentence") or "")[:300] if isinstance(verdict, dict) else ""


def _key(files: Sequence[UploadedFile], wanted: Range) -> str:
    """The digest of what is read and how."""
    digests = []
    for file in files:
        found = hashlib.sha256()
        for chunk in file.chunks():
            found.update(chunk)
        file.seek(0)
        digests.append(found.hexdigest())
    return hashlib.sha256(repr((sorted(digests), wanted)).encode()).hexdigest()
