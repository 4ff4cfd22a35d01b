"""Sources in templates."""

from __future__ import annotations

from django import template

from stitchweb.runs.diffs import Row
from stitchweb.runs.diffs import source_rows as rows_of

register = template.Library()


@register.filter
def source_of(text: str, path: str) -> tuple[Row, ...]:
    """A text as numbered rows, highlighted as the file's name says."""
    return rows_of(path, text)


@register.filter
def source_rows(text: str) -> tuple[Row, ...]:
    """A Python text as numbered, highlighted rows."""
    return rows_of("reference.py", text)
