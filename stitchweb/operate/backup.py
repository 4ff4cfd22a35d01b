"""The whole site as one file, and back: rows as JSON, stored files as they are. The same on SQLite and PostgreSQL, and between
them.

All rows are read in one transaction that sees one moment, without keeping anybody from writing. Files are copied after it: they
are never changed, and are stored before the row that names them, so each row of that moment has its file. What is missing
nevertheless is found and fails the backup.
"""

from __future__ import annotations

import base64
import io
import json
import os
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

from django.apps import apps
from django.core.files.base import File
from django.core.files.storage import default_storage
from django.core.management.color import no_style
from django.core.serializers.json import DjangoJSONEncoder
from django.db import connection, models, transaction
from django.db.migrations.recorder import MigrationRecorder
from django.db.models.sql import InsertQuery

from stitchweb.core.fields import StoredName
from stitchweb.runs.models import Run
from stitchweb.teams.models import Team, User

FORMAT = "stitchweb.backup/1"
PART = 2000  # rows of one part of a table
SECRETS = ("secret_key", "model_keys_secret")  # in DATA_DIR, where the environment does not bring them
_LEFT_OUT = ("sessions.session", "admin.logentry")


class BackupError(Exception):
    """The message says why, and what to do."""


def tables() -> list[type[models.Model]]:
    """All tables whose rows are kept, those between two others among them."""
    found = [model for model in apps.get_models(include_auto_created=True) if model._meta.managed and not model._meta.proxy]
    return [model for model in found if model._meta.label_lower not in _LEFT_OUT]


def migrations() -> list[str]:
    """What this database's tables are, by the migrations that made them."""
    return sorted(f"{app}.{name}" for app, name in MigrationRecorder(connection).applied_migrations())


# ---- out


def backup(path: Path, secrets: Path | None = None) -> dict[str, int]:
    """Write the archive; rows by table, and `files`. `secrets`: the folder whose secrets go in, too. BackupError, and then
    there is no archive. It is written beside its place and moved there when it is whole."""
    partial = path.with_name(f"{path.name}.partial")
    counts: dict[str, int] = {}
    try:
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
            with tarfile.open(fileobj=out, mode="w:gz", compresslevel=3) as tar:
                named = _write_rows(tar, counts)
                counts["files"] = _write_files(tar, named)
                for name in SECRETS if secrets else ():
                    if secrets and (secrets / name).is_file():
                        _add(tar, f"secrets/{name}", (secrets / name).read_bytes())
                told = {"format": FORMAT, "made": datetime.now(UTC).isoformat(), "migrations": migrations(), "rows": counts}
                _add(tar, "manifest.json", json.dumps(told, indent=1).encode())
            out.flush()
            os.fsync(out.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return counts


@contextmanager
def _moment() -> Iterator[None]:
    """A transaction that sees one moment and holds no lock that a writer would wait for."""
    if connection.vendor == "sqlite":
        connection.ensure_connection()  # which reads the mode from the settings
        before, connection.transaction_mode = connection.transaction_mode, "DEFERRED"  # type: ignore[attr-defined]
        try:
            with transaction.atomic():
                yield
        finally:
            connection.transaction_mode = before  # type: ignore[attr-defined]
        return
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield


def _write_rows(tar: tarfile.TarFile, counts: dict[str, int]) -> set[str]:
    """Every table, in parts. The names of the files that rows need."""
    named: set[str] = set()
    with _moment():
        for model in tables():
            fields, label = model._meta.local_concrete_fields, model._meta.label_lower
            files = [place for place, field in enumerate(fields) if isinstance(field, models.FileField | StoredName)]
            rows = model._base_manager.order_by().values_list(*(field.attname for field in fields)).iterator(PART)
            counts[label], lines, part = 0, [], 0
            for row in rows:
                named.update(str(row[place]) for place in files if row[place])
                lines.append(json.dumps([_plain(value) for value in row], cls=DjangoJSONEncoder))
                counts[label] += 1
                if len(lines) == PART:
                    part, lines = _write_part(tar, label, part, fields, lines)
            if lines or not part:
                _write_part(tar, label, part, fields, lines)
    return named


def _write_part(
    tar: tarfile.TarFile, label: str, part: int, fields: Iterable[models.Field[Any, Any]], lines: list[str]
) -> tuple[int, list[str]]:
    head = json.dumps([field.attname for field in fields])
    _add(tar, f"rows/{label}/{part:06}.jsonl", "\n".join([head, *lines]).encode())
    return part + 1, []


def _plain(value: Any) -> Any:
    if isinstance(value, bytes | memoryview):
        return {"base64": base64.b64encode(bytes(value)).decode()}
    if isinstance(value, datetime):
        return value.isoformat()  # Django's encoder keeps thousandths of a second alone
    return value


def _write_files(tar: tarfile.TarFile, named: set[str]) -> int:
    """Everything in the file storage. BackupError when a row's file is not there."""
    stored = set(_stored(""))
    if lacking := sorted(named - stored):
        raise BackupError(
            f"{len(lacking)} files that rows name are not in the file storage, {lacking[0]} among them. Mend that first: "
            "a backup without them could not be restored."
        )
    count = 0
    for name in sorted(stored):
        try:
            with default_storage.open(name) as file:
                data = file.read()
        except FileNotFoundError:
            if name in named:
                raise BackupError(f"The file {name} went while it was being copied. Try again.") from None
            continue  # of a row that was deleted meanwhile
        _add(tar, f"files/{name}", data)
        count += 1
    return count


def _stored(folder: str) -> Iterator[str]:
    try:
        folders, files = default_storage.listdir(folder)
    except FileNotFoundError:
        return
    for name in files:
        yield f"{folder}/{name}" if folder else name
    for name in folders:
        yield from _stored(f"{folder}/{name}" if folder else name)


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = len(data), 0o600, int(datetime.now(UTC).timestamp())
    tar.addfile(entry, io.BytesIO(data))


# ---- back


def manifest(path: Path) -> dict[str, Any]:
    """What an archive says of itself. BackupError when it is none, or not whole."""
    try:
        with tarfile.open(path, "r:gz") as tar:
            file = tar.extractfile("manifest.json")
            told = json.loads(file.read()) if file else {}
    except (OSError, EOFError, tarfile.TarError, KeyError, ValueError) as error:
        raise BackupError(f"{path} is no whole backup of StitchWeb: {error}") from error
    if not isinstance(told, dict) or told.get("format") != FORMAT:
        raise BackupError(f"{path} is of another format than {FORMAT}.")
    return told


def restore(path: Path, secrets: Path | None = None) -> dict[str, int]:
    """Fill an empty database and its file storage from an archive; rows by table. BackupError before anything is changed, or
    with everything undone but the files. `secrets`: the folder that gets the secrets of the archive, where it has some."""
    told = manifest(path)
    _check_place(told)
    counts: dict[str, int] = {}
    known = {model._meta.label_lower: model for model in tables()}
    with tarfile.open(path, "r:gz") as tar, transaction.atomic():
        for model in known.values():  # what migrations made, under numbers of its own; whether all fits is asked at the end
            model._base_manager.all()._raw_delete(connection.alias)
        for entry in tar:
            folder, _, rest = entry.name.partition("/")
            file = tar.extractfile(entry)
            if file is None:
                continue
            if folder == "rows":
                label = rest.partition("/")[0]
                counts[label] = counts.get(label, 0) + _read_part(known[label], file.read())
            elif folder == "files":
                _put_file(rest, file.read())
            elif folder == "secrets" and secrets is not None and rest in SECRETS:
                _put_secret(secrets / rest, file.read())
        wrong = {label: n for label, n in told["rows"].items() if label != "files" and counts.get(label, 0) != n}
        if wrong:
            raise BackupError(f"The archive is not whole: rows are missing of {', '.join(sorted(wrong))}.")
        with connection.cursor() as cursor:
            for sql in connection.ops.sequence_reset_sql(no_style(), list(known.values())):
                cursor.execute(sql)
        connection.check_constraints()
    return counts


def _check_place(told: dict[str, Any]) -> None:
    here = migrations()
    if here != told["migrations"]:
        more, less = sorted(set(told["migrations"]) - set(here)), sorted(set(here) - set(told["migrations"]))
        which = f"it lacks {more[0]}" if more else f"it has {less[0]} beyond the backup's"
        raise BackupError(
            f"This database is of another version than the backup: {which}. Install the version that made the backup, run "
            "migrate and restore there, then go on to this version."
        )
    for model in (User, Team, Run):
        if model._base_manager.exists():
            raise BackupError(
                f"The database is not empty: {model._meta.db_table} has rows. Restore into a fresh one: set DATABASE_URL or an "
                "empty DATA_DIR, and run migrate."
            )


def _read_part(model: type[models.Model], data: bytes) -> int:
    head, *lines = data.decode().split("\n")
    by_name = {field.attname: field for field in model._meta.local_concrete_fields}
    fields = [by_name[name] for name in json.loads(head)]
    rows = []
    for line in lines:
        values = {field.attname: _value(field, value) for field, value in zip(fields, json.loads(line), strict=True)}
        rows.append(model(**values))
    size = max(1, connection.ops.bulk_batch_size(fields, rows)) if rows else 1
    for place in range(0, len(rows), min(size, 500)):
        query = InsertQuery(model)
        query.insert_values(fields, rows[place : place + min(size, 500)], raw=True)  # as they were: nothing is set to "now"
        query.get_compiler(connection=connection).execute_sql()
    return len(rows)


def _value(field: models.Field[Any, Any], value: Any) -> Any:
    if isinstance(field, models.BinaryField):
        return base64.b64decode(value["base64"]) if value is not None else None
    if isinstance(field, models.JSONField | models.ForeignKey) or value is None:
        return value
    return field.to_python(value)


def _put_file(name: str, data: bytes) -> None:
    if name.startswith("/") or ".." in PurePosixPath(name).parts:
        raise BackupError(f"The archive has a file {name!r}, which would lie outside of the storage.")
    if default_storage.exists(name):
        default_storage.delete(name)
    default_storage.save(name, File(io.BytesIO(data)))


def _put_secret(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)
