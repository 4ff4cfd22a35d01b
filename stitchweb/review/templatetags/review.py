"""Rubrics and guidelines in templates."""

from __future__ import annotations

from dataclasses import dataclass

from django import template
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt

from stitchweb.review.rubric import Dimension, Level
from stitchweb.runs.diffs import source_rows

register = template.Library()

# Raw HTML is shown as text, links may be http, https, mailto or of this site (markdown-it's own rule), pictures are none.
_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")


@dataclass(frozen=True)
class ExampleRow:
    """A highlighted line of an example. `kind`: "add" or "del" in a diff, empty elsewhere."""

    kind: str
    html: SafeString


@register.filter
def signed(value: float) -> str:
    """A number with two digits and a minus that is one."""
    return f"{value:.2f}".replace("-", "−")


@register.filter
def levels_off(value: float) -> str:
    """A difference: with two digits and its sign, whichever it is."""
    return f"{value:+.2f}".replace("-", "−")


@register.filter
def anchor(level: Level, skill: str) -> str:
    return level.anchor(skill)


@register.filter
def guide(dimension: Dimension, skill: str) -> str:
    return dimension.guide(skill)


@register.filter
def example(level: Level) -> list[ExampleRow]:
    """The level's example as highlighted rows; of a diff with its added and removed lines told apart."""
    text = level.code.strip("\n") + "\n"
    path = f"example.{'cu' if level.lang == 'diff' else level.lang}"
    kinds = {"+": "add", "-": "del"} if level.lang == "diff" else {}
    lines = text.splitlines()
    return [ExampleRow(kinds.get(line[:1], ""), row.html) for line, row in zip(lines, source_rows(path, text), strict=True)]


@register.filter
def markdown(text: str) -> SafeString:
    """People's Markdown as markup. HTML in it stays text; scripts and foreign pictures cannot come in."""
    return mark_safe(_MARKDOWN.render(text))  # noqa: S308  the renderer escapes all text and knows no raw HTML
