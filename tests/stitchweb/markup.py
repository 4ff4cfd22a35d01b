"""Reading and patching markup as the page's script does, so that tests can hold live pages against fresh ones."""

from __future__ import annotations

import re
from html.parser import HTMLParser

VOID = {"area", "base", "br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"}


class _Spans(HTMLParser):
    """Where each element with an id starts and ends, and which elements stand at the top."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=False)
        self._lines = [0]
        for line in html.split("\n"):
            self._lines.append(self._lines[-1] + len(line) + 1)
        self._open: list[tuple[str, str, int]] = []
        self.spans: dict[str, tuple[int, int]] = {}
        self.top: list[tuple[str, str, int, int]] = []  # tag, id or list to prepend to, start, end
        self.feed(html)
        self.close()

    def _at(self) -> int:
        line, column = self.getpos()
        return self._lines[line - 1] + column

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in VOID:
            return
        names = dict(attrs)
        self._open.append((tag, names.get("id") or names.get("data-prepend") or "", self._at()))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        return

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        opened, ident, start = self._open.pop()
        assert opened == tag, f"<{opened}> is closed by </{tag}>"
        end = self._at() + len(tag) + 3
        if ident:
            self.spans[ident] = (start, end)
        if not self._open:
            self.top.append((tag, ident, start, end))


def well_formed(html: str) -> None:
    """AssertionError when an element is closed by another's tag or not at all."""
    spans = _Spans(html)
    assert not spans._open, f"not closed: {spans._open}"


def apply(page: str, fragments: str, most_rows: int = 200) -> str:
    """The page after the script applied these fragments: elements replaced by id, new rows on top, the oldest dropped."""
    for tag, ident, start, end in _Spans(fragments).top:
        piece = fragments[start:end]
        known = _Spans(page).spans
        if tag == "template":
            page = _prepend(page, ident, piece[piece.index(">") + 1 : piece.rindex("<")], known, most_rows)
        elif ident in known:
            a, b = known[ident]
            page = page[:a] + piece + page[b:]
    return page


def _prepend(page: str, list_id: str, rows: str, known: dict[str, tuple[int, int]], most_rows: int) -> str:
    fresh = [rows[a:b] for _, ident, a, b in _Spans(rows).top if ident not in known]
    a, b = known[list_id]
    whole = page[a:b]
    head, inner = whole[: whole.index(">") + 1], whole[whole.index(">") + 1 : whole.rindex("<")]
    kept = [inner[x:y] for _, _, x, y in _Spans(inner).top]
    return page[:a] + head + "".join([*fresh, *kept][:most_rows]) + whole[whole.rindex("<") :] + page[b:]


def squeezed(html: str) -> str:
    """Without the white space between elements, which no browser shows."""
    return "".join(line.strip() for line in html.splitlines())


def comparable(html: str) -> str:
    """A page without what may differ between two looks at the same state: clocks that a script counts, tokens of forms."""
    html = re.sub(
        r"(<span data-ticks[^>]*><b>)[^<]*(</b>.*?</span></span>\s*)<svg class=\"bar\".*?</svg>", r"\1\2", html, flags=re.S
    )
    html = re.sub(r"<time[^>]*data-since[^>]*>[^<]*</time>", "<time>", html)
    return squeezed(re.sub(r' name="(?:csrfmiddlewaretoken|once)" value="[^"]*"', "", html))
