"""A full disk and a busy database are told as such, on a page of their own or beside the form that was sent."""

from __future__ import annotations

import errno
import html
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import OperationalError, connection
from django.test import Client

from stitchweb.core.trouble import BUSY, FULL, trouble
from stitchweb.programs.models import Program
from stitchweb.runs.models import Run
from tests.conftest import REFERENCE, World
from tests.stitchweb.test_pages_upload import OPTIONS

NEW = REFERENCE + "# new\n" + "# filler\n" * 50_000


@pytest.fixture
def client(world: World) -> Client:
    client = Client(raise_request_exception=False)
    client.force_login(world.owner)
    return client


@contextmanager
def full_database() -> Iterator[None]:
    """SQLite's own limit of pages: the next one that it needs is one too many, as on a full disk."""
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA page_count")
        pages = cursor.fetchone()[0]
        cursor.execute(f"PRAGMA max_page_count = {pages}")
        try:
            yield
        finally:
            cursor.execute("PRAGMA max_page_count = 1073741823")


@pytest.mark.django_db
@pytest.mark.sqlite
@pytest.mark.parametrize("once", ["", "a-word-of-this-form"])
def test_a_full_database_is_told_beside_the_text_that_was_sent(client: Client, once: str) -> None:
    with full_database():
        answer = client.post("/upload/", OPTIONS | {"text": NEW, "name": "kept", "once": once})
    page = html.unescape(answer.content.decode())
    assert answer.status_code == 507
    assert "The disk of this site is full, so nothing can be stored." in page
    assert "free space where DATA_DIR and the database lie" in page
    assert "Your text is still in the form below." in page
    assert "# new\n# filler" in page
    assert 'value="kept"' in page
    assert Program.objects.count() == 1
    assert client.post("/upload/", OPTIONS | {"text": NEW, "once": once}).status_code == 302


@pytest.mark.django_db
def test_a_full_disk_under_the_stored_files_is_told_beside_the_form(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("stitchweb.runs.blobs.RunBlobs.put", full)
    answer = client.post("/upload/", OPTIONS | {"files": SimpleUploadedFile("mine.py", (REFERENCE + "# mine\n").encode())})
    page = html.unescape(answer.content.decode())
    assert answer.status_code == 507
    assert "The disk of this site is full" in page
    assert "# mine" in page, "the text of the file is in the form"
    assert (Program.objects.count(), Run.objects.count()) == (1, 0)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), 507, "The disk is full"),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), 507, "The disk is full"),
        (OperationalError("could not extend file: No space left on device"), 507, "The disk is full"),
        (OperationalError("database is locked"), 503, "The database is busy"),
        (OSError(errno.EACCES, "Permission denied"), 500, "Something broke on our side"),
        (OperationalError("no such table"), 500, "Something broke on our side"),
    ],
)
def test_any_other_page_has_a_page_for_it(
    client: Client, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int, words: str
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("stitchweb.runs.views.library.programs_for", fails)
    answer = client.get("/")
    assert answer.status_code == status
    assert words in answer.content.decode()
    assert answer.headers.get("Retry-After") == ("60" if status == 503 else None)


@pytest.mark.django_db(transaction=True)
@pytest.mark.sqlite
def test_a_database_that_stays_locked_is_told_and_nothing_is_lost(client: Client) -> None:
    settings = connection.settings_dict
    connection.close()
    waits = settings["OPTIONS"]["timeout"]
    settings["OPTIONS"]["timeout"] = 0.2
    locked, done = threading.Event(), threading.Event()

    def hold() -> None:
        with sqlite3.connect(settings["NAME"], isolation_level=None) as other:
            other.execute("BEGIN IMMEDIATE")
            locked.set()
            done.wait(30)
            other.execute("ROLLBACK")

    holder = threading.Thread(target=hold)
    try:
        holder.start()
        locked.wait(10)
        answer = client.post("/upload/", OPTIONS | {"text": REFERENCE + "# kept\n"})
    finally:
        done.set()
        holder.join()
        settings["OPTIONS"]["timeout"] = waits
        connection.close()
    page = html.unescape(answer.content.decode())
    assert answer.status_code == 503
    assert "The database was busy for too long, so nothing was stored." in page
    assert "# kept" in page
    assert client.post("/upload/", OPTIONS | {"text": REFERENCE + "# kept\n"}).status_code == 302


@pytest.mark.django_db(transaction=True)
@pytest.mark.postgres
def test_a_table_that_stays_locked_is_told_and_nothing_is_lost(client: Client) -> None:
    import psycopg

    def asked(sql: str) -> str:
        with connection.cursor() as cursor:
            cursor.execute(sql)
            return str(cursor.fetchone()[0]) if cursor.description else ""

    assert asked("SHOW lock_timeout") == "20s"
    asked("SET lock_timeout = '200ms'")
    with psycopg.connect(**connection.get_connection_params() | {"cursor_factory": None, "context": None}) as other:
        other.execute(f"LOCK TABLE {Program._meta.db_table} IN EXCLUSIVE MODE")
        answer = client.post("/upload/", OPTIONS | {"text": REFERENCE + "# kept\n"})
    page = html.unescape(answer.content.decode())
    assert answer.status_code == 503
    assert "The database was busy for too long, so nothing was stored." in page
    assert "# kept" in page
    assert client.post("/upload/", OPTIONS | {"text": REFERENCE + "# kept\n"}).status_code == 302


def test_the_cause_is_found_behind_what_was_raised_from_it() -> None:
    told = RuntimeError("writing failed")
    told.__cause__ = OSError(errno.ENOSPC, "No space left on device")
    assert trouble(told) is FULL
    assert trouble(OperationalError("database is locked")) is BUSY
    assert trouble(RuntimeError("disk is full")) is None
    assert trouble(None) is None


@pytest.mark.parametrize(("free", "files", "is_full"), [(0, 9, True), (1 << 30, 9, False), (1 << 30, 0, True)])
def test_an_error_that_names_no_cause_is_a_full_disk_only_where_the_disk_is_full(
    monkeypatch: pytest.MonkeyPatch, free: int, files: int, is_full: bool
) -> None:
    disk = SimpleNamespace(f_bavail=free // 4096, f_frsize=4096, f_files=100, f_favail=files)
    monkeypatch.setattr("os.statvfs", lambda path: disk)
    assert (trouble(OperationalError("disk I/O error")) is FULL) is is_full


@pytest.mark.django_db
def test_the_page_for_it_asks_nothing_of_the_database(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise OperationalError("database or disk is full")

    monkeypatch.setattr("django.db.backends.utils.CursorWrapper.execute", fails)
    answer = client.post("/upload/", OPTIONS | {"text": REFERENCE})
    page = html.unescape(answer.content.decode())
    assert answer.status_code == 507
    assert "The disk is full" in page
    assert "what you wrote" in page
