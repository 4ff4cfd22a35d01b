"""JSON as models write it: in a fence or amid prose, with comments, trailing commas, single quotes, Python's words, bare keys.

What is read is data alone; nothing is evaluated. Every pass over the text is linear, and texts and tries are bounded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

MOST_TEXT = 200_000  # characters; no plan and no verdict is longer
MOST_STARTS = 24  # brackets from which a document is tried

_WORDS = {"True": "true", "False": "false", "None": "null", "undefined": "null"}
_WORD = re.compile(r"[A-Za-z_$][\w$-]*")
_THINKING = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)
_COLON = re.compile(r"\s{0,40}:")
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[^\n`]*\n(.*?)^[ \t]*\1[ \t]*$", re.DOTALL | re.MULTILINE)
_ESCAPED = {"'": "'", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


class NotJson(Exception):
    """There is no document to be read. The message is a sentence that the writer can act on."""


def without_thinking(text: str) -> str:
    """The text without what a model thought aloud in `<think>` marks; one that is never closed takes all that follows."""
    if "<think>" not in text:  # some servers swallow the opening mark
        return text.rpartition("</think>")[2]
    return _THINKING.sub("", text)


def read(text: str, wanted: type = dict) -> Any:
    """The first document of the text that is of the type `wanted`. NotJson with what is wrong with the nearest one."""
    text = without_thinking(text)
    if len(text) > MOST_TEXT:
        raise NotJson(f"The answer has {len(text)} characters; at most {MOST_TEXT} are read.")
    wrong = ""
    for document in _documents(text):
        try:
            value = _loaded(document)
        except ValueError as error:
            wrong = wrong or f"The JSON cannot be read: {error}."
        except RecursionError:
            wrong = wrong or "The JSON is nested too deeply."
        else:
            if isinstance(value, wanted):
                return value
    raise NotJson(wrong or "The answer holds no JSON object.")


def _documents(text: str) -> Iterator[str]:
    """Whatever may be a document: the text itself, fenced blocks, then what stands between brackets that match."""
    if text.lstrip()[:1] in ("{", "["):
        yield text.strip()
    for found in _FENCE.finditer(text):
        yield found.group(2).strip()
    at = 0
    for _ in range(MOST_STARTS):
        start = min((i for i in (text.find("{", at), text.find("[", at)) if i >= 0), default=-1)
        if start < 0:
            return
        end = _end(text, start)
        if end:
            yield text[start:end]
        at = end or start + 1


def _end(text: str, start: int) -> int:
    """Behind the bracket that closes the one at `start`; 0 when none does."""
    depth, quote, i = 0, "", start
    while i < len(text):
        c = text[i]
        if quote:
            if c == "\\":
                i += 1
            elif c == quote:
                quote = ""
        elif c == '"':
            quote = c
        elif c in "{[":
            depth += 1
        elif c in "}]":
            depth -= 1
            if depth == 0:
                return i + 1
        i += 1
    return 0


def _loaded(document: str) -> Any:
    try:
        return json.loads(document, strict=False, parse_constant=lambda word: None)
    except ValueError as error:
        try:
            return json.loads(_strict(document), strict=False, parse_constant=lambda word: None)
        except json.JSONDecodeError:
            raise error from None


def _strict(text: str) -> str:
    """The document without comments and trailing commas, its strings in double quotes, its words JSON's, its keys quoted."""
    out: list[str] = []
    i = 0
    while i < len(text):
        c = text[i]
        if c in "\"'":
            quoted, i = _string(text, i)
            out.append(quoted)
        elif text.startswith("//", i) or c == "#":
            end = text.find("\n", i)
            i = len(text) if end < 0 else end
        elif text.startswith("/*", i):
            end = text.find("*/", i)
            i = len(text) if end < 0 else end + 2
        elif (word := _WORD.match(text, i)) is not None:
            i = word.end()
            key = _COLON.match(text, i) is not None
            out.append(json.dumps(word.group()) if key else _WORDS.get(word.group(), word.group()))
        else:
            if c in "}]":
                while out and out[-1].isspace():
                    out.pop()
                if out and out[-1] == ",":
                    out.pop()
            out.append(c)
            i += 1
    return "".join(out)


def _string(text: str, start: int) -> tuple[str, int]:
    """The string at `start` in double quotes, and where it ends."""
    quote, out, i = text[start], ['"'], start + 1
    while i < len(text) and text[i] != quote:
        c = text[i]
        if c == "\\" and i + 1 < len(text):
            out.append("'" if text[i + 1] == "'" else text[i : i + 2])
            i += 2
            continue
        out.append(_ESCAPED.get(c, c))
        i += 1
    return "".join(out) + '"', i + 1
