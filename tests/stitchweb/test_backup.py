"""A backup holds the whole site at one moment; what is restored is the same, on the same kind of database or the other."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from django.conf import settings

from tests.e2e.site import fresh_database

ROOT = Path(__file__).resolve().parents[2]
MAKE = """
from django.core.management import call_command
call_command("migrate", verbosity=0)
from tests.stitchweb.world_for_tests import make_world
from stitchweb.runs.blobs import RunBlobs
from stitchweb.runs.models import Run
world = make_world()
RunBlobs(world.done.pk).put(b"large" * 100_000)
"""
STATE = """
import hashlib, json
from stitchweb.operate.backup import tables, _plain
from stitchweb.runs.models import Blob
from stitchweb.runs.blobs import read
from stitchweb.runs.history import view_of
from django.core.serializers.json import DjangoJSONEncoder
told = {}
for model in tables():
    names = [f.attname for f in model._meta.local_concrete_fields]
    if model._meta.label_lower in ("contenttypes.contenttype", "auth.permission"):
        continue
    found = model._base_manager.values_list(*names)
    rows = sorted(json.dumps([_plain(v) for v in row], cls=DjangoJSONEncoder, sort_keys=True) for row in found)
    told[model._meta.label_lower] = [len(rows), hashlib.sha256("".join(rows).encode()).hexdigest()]
for blob in Blob.objects.all():
    assert hashlib.sha256(read(blob)).hexdigest() == blob.sha256
print(json.dumps(told))
"""
AFTER = """
from stitchweb.runs.models import Run, Job
from stitchweb.programs.services import Upload, create_program
from stitchweb.teams.models import User
user = User.objects.get(email="ada@example.org")
made = create_program(user, user.teams.get(), Upload(open("examples/elementwise_chain.py").read(), "new.py"))
print(json.dumps(made.pk))
"""


class Place:
    """A site's database and folder, looked at from processes of its own."""

    def __init__(self, folder: Path, database: str) -> None:
        self.folder = folder
        kept = {key: value for key, value in os.environ.items() if key in ("PATH", "HOME", "LANG")}  # noqa: TID251
        self.env = kept | {
            "DATA_DIR": str(folder), "DATABASE_URL": database, "DJANGO_SETTINGS_MODULE": "stitchweb.settings",
            "PYTHONPATH": str(ROOT),
        }  # fmt: skip

    def python(self, code: str) -> Any:
        script = f"import json, django; django.setup()\n{code}"
        done = subprocess.run(
            [sys.executable, "-c", script], cwd=ROOT, env=self.env, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1]) if done.stdout.strip() else None

    def manage(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "manage.py", *words]
        return subprocess.run(command, cwd=ROOT, env=self.env, capture_output=True, text=True, timeout=120)


def _postgres(name: str) -> str:
    """The address of a fresh database beside the one that the tests' command has started."""
    given = settings.DATABASES["default"]
    return fresh_database(f"postgresql://{given['USER']}@/postgres?host={quote(given['HOST'], safe='')}", name)


@pytest.fixture
def places(tmp_path: Path) -> tuple[Place, Place]:
    """Where a site is, and where it is restored: on PostgreSQL the second is SQLite, so that way is gone, too."""
    on_postgres = settings.DATABASES["default"]["ENGINE"].endswith("postgresql")
    first = Place(tmp_path / "first", _postgres("backup_first") if on_postgres else "")
    return first, Place(tmp_path / "second", "")


def restored(first: Place, second: Place, archive: Path) -> None:
    before = first.python(STATE)
    done = first.manage("backup", str(archive))
    assert done.returncode == 0, done.stderr
    assert archive.stat().st_mode & 0o077 == 0
    assert second.manage("migrate", "-v", "0").returncode == 0
    done = second.manage("restore", str(archive))
    assert done.returncode == 0, done.stderr
    after = second.python(STATE)
    changed = {name for name in before if before[name] != after.get(name)}
    assert changed <= {"runs.run", "runs.job"}  # whose holders are let go
    assert {name: count for name, (count, _) in before.items()} == {name: count for name, (count, _) in after.items()}


def test_what_is_restored_is_the_same_and_goes_on(places: tuple[Place, Place], tmp_path: Path) -> None:
    first, second = places
    first.python(MAKE)
    restored(first, second, tmp_path / "site.tar.gz")
    assert second.python(AFTER) > 0  # numbers of new rows follow those of the restored ones
    done = second.manage("restore", str(tmp_path / "site.tar.gz"))
    assert done.returncode == 1
    assert "The database is not empty" in done.stderr


@pytest.mark.postgres
def test_a_site_on_sqlite_moves_to_postgresql(tmp_path: Path) -> None:
    first, second = Place(tmp_path / "first", ""), Place(tmp_path / "second", _postgres("backup_second"))
    first.python(MAKE)
    restored(first, second, tmp_path / "site.tar.gz")
    assert second.python(AFTER) > 0


WRITER = """
import sys
from django.db import transaction
from stitchweb.runs.models import Run
from stitchweb.runs import events
from agents.events import Event
pk = Run.objects.order_by("pk").first().pk
print("begun", flush=True)
number = 0
while True:
    with transaction.atomic():
        run = events.lock(pk)
        number += 1
        payload = {"status": "timing", "doing": f"round {number}", "step": 3}
        events.append(run, [Event(seq=1, kind="run.status", at=1.0, payload=payload)] * 3)
"""


def test_a_backup_of_a_site_at_work_sees_one_moment(places: tuple[Place, Place], tmp_path: Path) -> None:
    first, second = places
    first.python(MAKE)
    code = f"import django; django.setup()\n{WRITER}"
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, env=first.env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as writer:
        try:
            assert writer.stdout is not None
            writer.stdout.readline()
            done = first.manage("backup", str(tmp_path / "site.tar.gz"))
        finally:
            writer.kill()
    assert done.returncode == 0, done.stderr
    assert second.manage("migrate", "-v", "0").returncode == 0
    assert second.manage("restore", str(tmp_path / "site.tar.gz")).returncode == 0
    torn = second.python(
        "from stitchweb.runs.models import Event, Run\n"
        "print(json.dumps([r.pk for r in Run.objects.all() if r.events.count() and r.events.count() != r.last_seq]))"
    )
    assert torn == []


def test_a_backup_without_a_rows_file_is_none(places: tuple[Place, Place], tmp_path: Path) -> None:
    first, _ = places
    first.python(MAKE)
    [file] = (first.folder / "media" / "blobs").rglob("*/*")
    file.unlink()
    done = first.manage("backup", str(tmp_path / "site.tar.gz"))
    assert done.returncode == 1
    assert "1 files that rows name are not in the file storage" in done.stderr
    assert not list(tmp_path.glob("site.tar.gz*"))


@pytest.mark.sqlite
def test_what_is_no_whole_backup_or_of_another_version_changes_nothing(places: tuple[Place, Place], tmp_path: Path) -> None:
    first, second = places
    first.python(MAKE)
    archive, broken = tmp_path / "site.tar.gz", tmp_path / "broken.tar.gz"
    assert first.manage("backup", str(archive)).returncode == 0
    assert second.manage("migrate", "-v", "0").returncode == 0
    broken.write_bytes(archive.read_bytes()[: archive.stat().st_size // 2])
    for file, said in (
        (broken, "no whole backup"),
        (tmp_path / "nothing", "No such file"),
        (_other(archive, tmp_path), "another version"),
    ):
        done = second.manage("restore", str(file))
        assert done.returncode == 1
        assert said in done.stderr
    assert second.python("from stitchweb.teams.models import User\nprint(json.dumps(User.objects.count()))") == 0


def _other(archive: Path, folder: Path) -> Path:
    """The same archive, as if a later version had made it."""
    path = folder / "later.tar.gz"
    with tarfile.open(archive) as old, tarfile.open(path, "w:gz") as new:
        for entry in old:
            file = old.extractfile(entry)
            data = file.read() if file else b""
            if entry.name == "manifest.json":
                told = json.loads(data)
                told["migrations"].append("runs.9999_later")
                data = json.dumps(told).encode()
            entry.size = len(data)
            new.addfile(entry, io.BytesIO(data))
    return path


def test_the_file_that_any_row_names_belongs_to_the_backup() -> None:
    from django.db.models import FileField

    from stitchweb.core.fields import StoredName
    from stitchweb.operate.backup import tables

    named = {
        model._meta.label: field
        for model in tables()
        for field in model._meta.local_concrete_fields
        if field.attname == "file" and model._meta.label_lower != "review.mark"  # whose file is one of a program
    }
    assert {"runs.Blob", "runs.Artifact", "datasets.Release", "datasets.Export", "datasets.Judge"} <= set(named)
    assert all(isinstance(field, FileField | StoredName) for field in named.values())


def test_a_moment_keeps_its_microseconds() -> None:
    from datetime import UTC, datetime

    from django.utils.dateparse import parse_datetime

    from stitchweb.operate.backup import _plain

    for moment in (datetime(2026, 12, 1, 1, 2, 3, 456, UTC), datetime(2026, 12, 1, 1, 2, 3, 123456, UTC)):
        assert parse_datetime(_plain(moment)) == moment
