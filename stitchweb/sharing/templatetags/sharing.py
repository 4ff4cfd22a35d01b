"""What people write about publications, as markup that nobody can misuse."""

from __future__ import annotations

import nh3
from django import template
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.token import Token

from stitchweb.sharing.models import LICENCES

register = template.Library()

# Raw HTML is shown as text and pictures are none; what comes out is cleaned a second time, by a library that knows no Markdown.
_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("image")
_TAGS = set("p h3 h4 h5 h6 ul ol li a code pre em strong s blockquote hr br table thead tbody tr th td".split())
_ATTRIBUTES = {"a": {"href", "title"}, "ol": {"start"}}
_SCHEMES = {"http", "https", "mailto"}


@register.filter
def markdown(text: str) -> SafeString:
    """Markdown as HTML. Its highest heading becomes an h3, for the page has those above it; none is left out below."""
    tokens: list[Token] = _MARKDOWN.parse(text)
    headings = [token for token in tokens if token.type in ("heading_open", "heading_close")]
    levels = sorted({int(token.tag[1]) for token in headings})
    for token in headings:
        token.tag = f"h{min(3 + levels.index(int(token.tag[1])), 6)}"
    html = _MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {})
    clean = nh3.clean(html, tags=_TAGS, attributes=_ATTRIBUTES, url_schemes=_SCHEMES, link_rel="nofollow noopener noreferrer")
    return mark_safe(clean)  # noqa: S308  nh3 made it


@register.filter
def licence(key: str) -> str:
    """The name of a licence."""
    return dict(LICENCES).get(key, key)
