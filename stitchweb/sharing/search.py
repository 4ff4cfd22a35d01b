"""Full text over publications: FTS5 on SQLite, tsvector on PostgreSQL, one way to ask.

Both databases get the words already cut, because they would cut code differently: `layer_norm`, `torch.nn` and `LayerNorm` are
each found by any of their parts. A word is letters and digits; a query's words must all be there, each as a beginning.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from django.db import connection
from django.db.models.expressions import RawSQL

if TYPE_CHECKING:
    from stitchweb.sharing.models import PublicationQuerySet

TABLE = "sharing_search"
MAX_WORDS = 12  # of a query
MAX_TEXT = 400_000  # characters of one column: a tsvector ends at a megabyte
_WORD = re.compile(r"[^\W_]+")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z][a-z]+|[a-z]+|\d+")

CREATE = {
    "sqlite": f"CREATE VIRTUAL TABLE {TABLE} USING fts5(name, tags, notes, code, tokenize='unicode61')",
    "postgresql": f"CREATE TABLE {TABLE} (id bigint PRIMARY KEY, words tsvector NOT NULL);"
    f"CREATE INDEX {TABLE}_words ON {TABLE} USING gin (words)",
}
# One statement each, also in the place of what was there: between a deletion and an insertion of one row nothing may come.
_PUT = {
    "sqlite": f"INSERT OR REPLACE INTO {TABLE} (rowid, name, tags, notes, code) VALUES (%s, %s, %s, %s, %s)",  # noqa: S608  a constant
    "postgresql": f"INSERT INTO {TABLE} (id, words) VALUES (%s,"  # noqa: S608
    " setweight(to_tsvector('simple', %s), 'A') || setweight(to_tsvector('simple', %s), 'B')"
    " || setweight(to_tsvector('simple', %s), 'C') || setweight(to_tsvector('simple', %s), 'D'))"
    " ON CONFLICT (id) DO UPDATE SET words = excluded.words",
}
_KEY = {"sqlite": "rowid", "postgresql": "id"}
_FOUND = {
    "sqlite": f"SELECT rowid FROM {TABLE} WHERE {TABLE} MATCH %s",  # noqa: S608
    "postgresql": f"SELECT id FROM {TABLE} WHERE words @@ to_tsquery('simple', %s)",  # noqa: S608
}
# Smaller is better in both.
_RANK = {
    "sqlite": f"(SELECT bm25({TABLE}, 8.0, 4.0, 2.0, 1.0) FROM {TABLE}"  # noqa: S608
    f" WHERE {TABLE} MATCH %s AND rowid = sharing_publication.id)",
    "postgresql": f"(SELECT -ts_rank(words, to_tsquery('simple', %s)) FROM {TABLE}"  # noqa: S608
    f" WHERE {TABLE}.id = sharing_publication.id)",
}


def words_of(text: str) -> str:
    """The words of a text for the index, in lower case; a name in camel case is followed by its parts."""
    found: list[str] = []
    for word in _WORD.findall(text[:MAX_TEXT]):
        found.append(word.lower())
        parts = _PART.findall(word)
        if len(parts) > 1:
            found.extend(part.lower() for part in parts)
    return " ".join(found)


def asked(text: str) -> list[str]:
    """The words of a query, each once."""
    return list(dict.fromkeys(word.lower() for word in _WORD.findall(text)))[:MAX_WORDS]


def expression(text: str) -> str:
    """The query in the database's own words; only letters and digits get into it. Empty when nothing is asked."""
    words = asked(text)
    if connection.vendor == "sqlite":
        return " AND ".join(f'"{word}"*' for word in words)
    return " & ".join(f"{word}:*" for word in words)


def search(rows: PublicationQuerySet, text: str) -> PublicationQuerySet:
    query = expression(text)
    if not query:
        return rows.none()
    found = RawSQL(_FOUND[connection.vendor], [query])  # noqa: S611  constants; what a person wrote is a parameter
    rank = RawSQL(_RANK[connection.vendor], [query])  # noqa: S611
    return rows.filter(pk__in=found).annotate(rank=rank).order_by("rank", "-pk")


def put(pk: int, name: str, tags: Iterable[str], notes: str, code: Iterable[str]) -> None:
    """Index a publication, in the place of what was there. One query."""
    texts = (name, " ".join(tags), notes, "\n".join(code))
    with connection.cursor() as cursor:
        cursor.execute(_PUT[connection.vendor], [pk, *(words_of(text) for text in texts)])


def keys() -> str:
    """The query of the keys of all publications that are indexed."""
    return f"SELECT {_KEY[connection.vendor]} FROM {TABLE}"  # noqa: S608  constants


def forget(pks: Iterable[int]) -> None:
    with connection.cursor() as cursor:
        for pk in pks:
            cursor.execute(f"DELETE FROM {TABLE} WHERE {_KEY[connection.vendor]} = %s", [pk])  # noqa: S608  constants
