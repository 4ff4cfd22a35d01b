"""Releases and exports: asked for, made, cancelled, read again."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import tempfile
import zipfile
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from django.core.files import File
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db import IntegrityError, transaction
from django.utils import timezone

from stitchweb.datasets.card import card, facts_of
from stitchweb.datasets.changes import changes
from stitchweb.datasets.configs import CONFIGS, Data
from stitchweb.datasets.models import Export, Release, WorkState
from stitchweb.datasets.progress import Refused, Tell, silent, teller
from stitchweb.datasets.services.collect import collect
from stitchweb.datasets.services.placing import Leaking, leaks, place
from stitchweb.datasets.services.rewards import store_rewards
from stitchweb.datasets.services.work import begin, carried_out, sent
from stitchweb.datasets.snapshot import Snapshot, content, freeze
from stitchweb.datasets.writing import FORMATS, counted, write_config
from stitchweb.teams.models import Team, User

MAKE_RELEASE, MAKE_EXPORT = "stitchweb.make_release", "stitchweb.make_export"
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,59}")
FIRST_DAY = (1980, 1, 1, 0, 0, 0)  # of every file in a zip: the clock would change its bytes


def request_release(user: User | None, team: Team, name: str, *, send: bool = True) -> Release:
    """A row for a new release, which the agent worker makes. Refused for a name that is none or that the team has."""
    if not _NAME.fullmatch(name):
        raise Refused("A release's name has lower-case letters, digits, dots and hyphens, 60 at most, such as 2026-11.")
    try:
        with transaction.atomic():
            row = Release.objects.create(team=team, name=name, created_by=user)
    except IntegrityError:
        raise Refused(f"This team has a release {name} already. A release is never changed: choose another name.") from None
    if send:
        sent(MAKE_RELEASE, row)
    return row


def make_release(row: Release, tell: Tell | None = None) -> None:
    """Collect, place, check, freeze and count. Refused (Leaking with every pair) leaves the row failed with the sentence."""
    if not begin(row):
        return
    with carried_out(row):
        _freeze(row, tell or teller(row))


def _freeze(row: Release, tell: Tell) -> None:
    team = row.team
    collect(team, tell)
    store_rewards(team, tell)
    rows = place(team, tell)
    if found := leaks(rows):
        raise Leaking(found)
    snapshot = freeze(team, rows, tell)
    if not snapshot["candidates"]:
        raise Refused(
            "There is nothing to release: no candidate of an ended run is known. Let a run end, or bring candidates in."
        )
    data = Data(snapshot)
    tell("Counting rows")
    counts, crossing = counted(data, tell)
    if crossing:
        kind, key, one, other = crossing[0]
        raise Refused(
            f"The splits leak: {kind} {key} is in {one} and in {other}. Report this: the check before should have seen it."
        )
    whole = content(snapshot)
    before = Release.objects.filter(team=team, state=WorkState.DONE).exclude(pk=row.pk).first()
    row.sha256 = hashlib.sha256(whole).hexdigest()
    tell("Storing")
    path = f"releases/{row.sha256}.json.gz"
    if not default_storage.exists(path):
        default_storage.save(path, ContentFile(_packed(whole)))
    row.file, row.size, row.counts, row.before = path, len(whole), counts, before
    row.facts = facts_of(data)
    row.changes = changes(load(before) if before else None, snapshot)


def _packed(whole: bytes) -> bytes:
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", mtime=0) as file:
        file.write(whole)
    return out.getvalue()


@lru_cache(maxsize=1)
def _unpacked(path: str) -> Snapshot:
    with default_storage.open(path) as file:
        found: dict[str, Any] = json.loads(gzip.decompress(file.read()))
    return found


def load(row: Release) -> Snapshot:
    """The frozen content. Refused where it is not there, or its bytes are not what was frozen."""
    if row.state != WorkState.DONE:
        raise Refused(f"The release {row.name} is {row.state}: there is nothing to read yet.")
    try:
        snapshot = _unpacked(row.file)
    except (OSError, ValueError) as error:
        raise Refused(
            f"The content of release {row.name} cannot be read: {type(error).__name__}. Was its file removed?"
        ) from error
    if hashlib.sha256(content(snapshot)).hexdigest() != row.sha256:
        raise Refused(f"The content of release {row.name} is not what was frozen: its digest differs.")
    return snapshot


def export_config(row: Release, config: str, form: str, folder: Path, tell: Tell = silent) -> dict[str, int]:
    """One config as files, a file per split. Refused for what there is not; rows per split."""
    if config not in CONFIGS:
        raise Refused(f"There is no config {config!r}. Choose one of {', '.join(CONFIGS)}.")
    if form not in FORMATS:
        raise Refused(f"There is no format {form!r}. Choose jsonl or parquet.")
    return write_config(Data(load(row)), config, form, folder, tell)


def request_export(user: User, release: Release, form: str) -> Export:
    """A zip of all configs, which the agent worker makes. One that is there or under way stays."""
    if form not in FORMATS:
        raise Refused(f"There is no format {form!r}. Choose jsonl or parquet.")
    if release.state != WorkState.DONE:
        raise Refused("The release is not made yet.")
    with transaction.atomic():
        row, new = Export.objects.select_for_update().get_or_create(release=release, format=form, defaults={"created_by": user})
        if not new and row.state in (WorkState.FAILED, WorkState.CANCELLED):
            row.state, row.cancel, row.problem, row.heard_at = WorkState.QUEUED, False, "", timezone.now()
            row.save()
        if row.state == WorkState.QUEUED:
            sent(MAKE_EXPORT, row)
    return row


def make_export(row: Export, tell: Tell | None = None) -> None:
    """The zip: a folder per config, README.md, checksums."""
    if not begin(row):
        return
    with carried_out(row), tempfile.TemporaryDirectory() as scratch:
        say, folder = tell or teller(row), Path(scratch)
        data = Data(load(row.release))
        for number, config in enumerate(CONFIGS):
            say(f"Writing {config}", number, len(CONFIGS))
            write_config(data, config, row.format, folder / config, partial(_told, say, number))
        (folder / "README.md").write_text(card_of(row.release, row.format), encoding="utf-8")
        say("Packing", len(CONFIGS), len(CONFIGS))
        _zip(folder, folder / "all.zip")
        row.size, row.sha256 = (folder / "all.zip").stat().st_size, _digest(folder / "all.zip")
        with (folder / "all.zip").open("rb") as file:
            row.file = default_storage.save(f"exports/{row.release.sha256}.{row.format}.zip", File(file))


def _told(say: Tell, number: int, doing: str, at: int = 0, of: int = 0) -> None:
    """Progress over all configs, whatever one of them counts."""
    say(doing, number, len(CONFIGS))


def card_of(release: Release, form: str) -> str:
    return card(release.name, release.sha256, release.counts, release.facts, release.changes, load(release)["rubrics"], form)


def _zip(folder: Path, to: Path) -> None:
    """All files, sorted, with their digests in SHA256SUMS."""
    paths = sorted(p for p in folder.rglob("*") if p.is_file() and p != to)
    sums = "".join(f"{_digest(path)}  {path.relative_to(folder)}\n" for path in paths)
    (folder / "SHA256SUMS").write_text(sums, encoding="utf-8")
    with zipfile.ZipFile(to, "w") as out:
        for path in [*paths, folder / "SHA256SUMS"]:
            entry = zipfile.ZipInfo(str(path.relative_to(folder)), FIRST_DAY)
            entry.compress_type = zipfile.ZIP_STORED if path.suffix == ".parquet" else zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            with path.open("rb") as source, out.open(entry, "w") as target:
                while part := source.read(1 << 20):
                    target.write(part)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
