"""DATABASE_URL in Django's words, and the database's upkeep."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured
from django.db import connection

WAIT_S = 20  # for a lock: whoever waits longer is told that the database is busy
# Of one process, at most: more than AGENT_THREADS, each of which keeps one. They are opened as they are needed.
CONNECTIONS = 80
AWAY_S = 5  # for a connection: a database that is away is not waited for as long as one that is busy


def database(url: str, data_dir: Path) -> dict[str, Any]:
    """The `default` database of a URL; an empty one means SQLite in the data folder.

    Known forms: `sqlite:///relative.db`, `sqlite:////absolute.db`, `postgresql://user:password@host:5432/name?sslmode=require`.
    """
    if not url:
        return _sqlite(data_dir / "stitchweb.sqlite3")
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        return _sqlite(Path(unquote(parts.path).removeprefix("/")))
    if parts.scheme not in ("postgres", "postgresql"):
        raise ImproperlyConfigured(
            f"DATABASE_URL begins with {parts.scheme!r}. Known are sqlite:///path and postgresql://user:password@host/name."
        )
    options = dict(parse_qsl(parts.query))
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.removeprefix("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": options.pop("host", "") or parts.hostname or "",
        "PORT": str(parts.port or ""),
        # The web process answers each request from a thread of its own, so none of them could keep a connection: the process
        # keeps them. To open one takes longer than most of what is asked over it.
        "OPTIONS": {
            "options": f"-c lock_timeout={WAIT_S}s",
            "pool": {"min_size": 0, "max_size": CONNECTIONS, "timeout": AWAY_S},
        }
        | options,
        "CONN_MAX_AGE": 0,  # as pools want it
        "CONN_HEALTH_CHECKS": True,  # of each that is taken out of the pool: a database that was started again has forgotten it
    }


def refresh_statistics() -> None:
    """Tell the planner how the rows are spread. Without it SQLite sorts all runs of a team to show the newest fifty.

    PostgreSQL does this by itself in time; after a bulk load it is asked to do it now.
    """
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("PRAGMA analysis_limit = 1000")
        cursor.execute("ANALYZE")


def _sqlite(path: Path) -> dict[str, Any]:
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": path,
        "OPTIONS": {
            # Readers never wait for the writer (WAL); a transaction takes the write lock when it begins, so that it cannot
            # fail half-way with "database is locked".
            "transaction_mode": "IMMEDIATE",
            "timeout": WAIT_S,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-16000;",
        },
        # A file, because several threads share it; of this process alone, because several suites may run at once.
        "TEST": {"NAME": path.parent / f"test-{os.getpid()}.sqlite3"},
    }
