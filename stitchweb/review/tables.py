"""Files that come and go: candidates from JSON lines or CSV, labels as CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

from stitchweb.review.export import label_lines
from stitchweb.review.models import Project
from stitchweb.review.services.intake import Brought, checked
from stitchweb.review.services.projects import ProjectRefused

MAX_FILE = 20 * 2**20
NESTED = ("files", "parent", "feedback")  # JSON in the cells of a CSV file
NONE = "Nothing was brought in."


def read_candidates(name: str, data: bytes) -> list[Brought]:
    """The rows of a .jsonl or .csv file. ProjectRefused with the row and what is wrong with it."""
    if len(data) > MAX_FILE:
        raise ProjectRefused(f"The file is larger than {MAX_FILE // 2**20} MiB. Cut it into parts. {NONE}")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ProjectRefused(f"The file is not UTF-8 at byte {error.start}. Save it as UTF-8. {NONE}") from error
    rows = list(_csv(text) if name.lower().endswith(".csv") else _json_lines(text))
    if not rows:
        raise ProjectRefused("The file has no candidate in it.")
    return [checked(row, place) for place, row in rows]


def _json_lines(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, line in enumerate(text.split("\n"), 1):  # what else ends a line may stand in a text of JSON
        if not line.strip():
            continue
        row = _parsed(line, f"line {number}")
        if not isinstance(row, dict):
            raise ProjectRefused(f"line {number}: a line is one JSON object. {NONE}")
        yield f"line {number}", row


def _csv(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    csv.field_size_limit(MAX_FILE)
    reader = csv.DictReader(io.StringIO(text, newline=""))
    unknown = set(reader.fieldnames or ()) - Brought.model_fields.keys()
    if unknown:
        known = ", ".join(Brought.model_fields)
        raise ProjectRefused(f"No candidate has a column {sorted(unknown)[0]!r}. The columns are: {known}. {NONE}")
    for number, cells in enumerate(reader, 1):
        filled = {key: cell for key, cell in cells.items() if cell and key}
        place = f"row {number}"
        yield place, {key: _parsed(cell, f"{place}, {key}") if key in NESTED else cell for key, cell in filled.items()}


def _parsed(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ProjectRefused(f"{place}: this is no JSON: {error}. {NONE}") from error
    except RecursionError as error:
        raise ProjectRefused(f"{place}: this is JSON within JSON without end. {NONE}") from error


def labels_csv(project: Project) -> Iterator[str]:
    """The same rows as the JSON lines, a line each with a column per dimension; marks are JSON in their cell.

    A cell that a spreadsheet would take for a formula begins with an apostrophe.
    """
    keys = [d.key for d in project.rubric.parsed.dimensions]
    plain = [
        "item", "run", "candidate", "content_sha256", "reference_sha256", "reference_group", "target", "skill", "gold", "split",
        "synthetic", "reviewer", "status", "day", "rubric", "blind", "superseded", "hack_level", "comment", "active_s",
        "skip_reason", "skip_note",
    ]  # fmt: skip
    columns = [*plain, *(f"{part}_{key}" for key in keys for part in ("level", "sure", "reason")), "hack_types", "marks"]
    yield _line(columns)
    for text in label_lines(project):
        row = json.loads(text)
        by_dimension = [row.get(part, {}).get(key) for key in keys for part in ("levels", "sure", "reasons")]
        nested = [json.dumps(row[key], ensure_ascii=False) if key in row else "" for key in ("hack_types", "marks")]
        yield _line([*(row.get(key) for key in plain), *by_dimension, *nested])


def _line(cells: list[Any]) -> str:
    out = io.StringIO()
    csv.writer(out).writerow([_cell(cell) for cell in cells])
    return out.getvalue()


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")):
        return f"'{value}"
    return value
