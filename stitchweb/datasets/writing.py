"""Rows as files: JSON lines or Parquet, the same bytes for the same rows. pyarrow is imported where Parquet is written."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Any, Protocol

from stitchweb.datasets.configs import SCHEMAS, Data, Row, rows_of, splits_of
from stitchweb.datasets.progress import Tell, silent

FORMATS = ("jsonl", "parquet")
AT_ONCE = 200  # rows of one Parquet row group: bounded in memory


class _File(Protocol):
    def write(self, row: Row) -> None: ...
    def close(self) -> None: ...


class _Lines:
    def __init__(self, path: Path) -> None:
        self._file: IO[str] = path.open("w", encoding="utf-8", newline="\n")

    def write(self, row: Row) -> None:
        self._file.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")

    def close(self) -> None:
        self._file.close()


class _Parquet:
    def __init__(self, path: Path, config: str) -> None:
        import pyarrow.parquet as pq

        self._schema = arrow_schema(config)
        self._writer = pq.ParquetWriter(path, self._schema, compression="zstd", version="2.6", store_schema=True)
        self._rows: list[Row] = []

    def write(self, row: Row) -> None:
        self._rows.append(row)
        if len(self._rows) >= AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        import pyarrow as pa

        if self._rows:
            self._writer.write_table(pa.Table.from_pylist(self._rows, schema=self._schema))
            self._rows = []

    def close(self) -> None:
        self._flush()
        self._writer.close()


def write_config(data: Data, config: str, form: str, folder: Path, tell: Tell = silent) -> dict[str, int]:
    """Write one file per split of a config into `folder`, also where it is empty; rows per split. KeyError for no such config.

    Files appear whole or not at all.
    """
    folder.mkdir(parents=True, exist_ok=True)
    counts: Counter[str] = Counter()
    paths = {split: folder / f"{split}.{form}" for split in splits_of(config)}
    parts = {split: path.with_suffix(f".{form}.part") for split, path in paths.items()}
    try:
        with ExitStack() as stack:
            files = {split: _opened(stack, path, config, form) for split, path in parts.items()}
            for number, (split, row) in enumerate(rows_of(data, config)):
                if number % AT_ONCE == 0:
                    tell(f"Writing {config}", number)
                files[split].write(row)
                counts[split] += 1
        for split, path in paths.items():
            parts[split].replace(path)
    finally:
        for part in parts.values():
            with suppress(FileNotFoundError):
                part.unlink()
    return {split: counts[split] for split in paths}


def _opened(stack: ExitStack, path: Path, config: str, form: str) -> _File:
    file: _File = _Lines(path) if form == "jsonl" else _Parquet(path, config)
    stack.callback(file.close)
    return file


def arrow_schema(config: str) -> Any:
    """The config's columns as a pyarrow schema."""
    import pyarrow as pa

    words = {
        "str": pa.string(), "bool": pa.bool_(), "int8": pa.int8(), "int32": pa.int32(), "int64": pa.int64(),
        "float32": pa.float32(),
    }  # fmt: skip

    def typed(kind: Any) -> Any:
        if isinstance(kind, str):
            return words[kind]
        if isinstance(kind, list):
            return pa.list_(typed(kind[0]))
        return pa.struct([pa.field(name, typed(one)) for name, one in kind.items()])

    return pa.schema([pa.field(name, typed(kind)) for name, kind in SCHEMAS[config].items()])


def counted(data: Data, tell: Tell = silent) -> tuple[dict[str, dict[str, int]], list[tuple[str, str, str, str]]]:
    """Rows per config and split, and what crosses splits in them: kind, key and the two splits. Makes every row once."""
    counts: dict[str, dict[str, int]] = {}
    seen: dict[tuple[str, str], str] = {}
    crossing: dict[tuple[str, str], tuple[str, str, str, str]] = {}
    for number, config in enumerate(SCHEMAS):
        tell(f"Counting {config}", number, len(SCHEMAS))
        count: Counter[str] = Counter()
        for at, (split, row) in enumerate(rows_of(data, config)):
            if at % 500 == 0:
                tell(f"Counting {config}", number, len(SCHEMAS))
            count[split] += 1
            for kind, key in _held_together(row):
                first = seen.setdefault((kind, key), split)
                if first != split:
                    crossing[kind, key] = (kind, key, first, split)
        counts[config] = {split: count[split] for split in splits_of(config)}
    return counts, sorted(crossing.values())


def _held_together(row: Row) -> Iterator[tuple[str, str]]:
    yield "ref_group_id", row["ref_group_id"]
    for kind in ("dup_cluster_id", "candidate_norm_sha256"):
        if row["meta"][kind]:
            yield kind, row["meta"][kind]
