"""A trace file as a stream of events: one JSON value at a time, plain or gzipped, in memory of a fixed size."""

from __future__ import annotations

import codecs
import json
import re
import zlib
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

from gpu_runner.profile.limits import Meter, UnreadableProfile

CHUNK = 1 << 20
GZIP = b"\x1f\x8b"
_WORDS = ("true", "false", "null", "NaN", "Infinity", "-Infinity")
_LONGEST_WORD = 16
_SPACE = re.compile(r"[ \t\n\r]*")


def _number(text: str) -> float | Decimal:
    """Epoch microseconds with decimals have more digits than a float holds."""
    return Decimal(text) if 15 < len(text) < 40 and "e" not in text and "E" not in text else float(text)


_DECODE = json.JSONDecoder(parse_float=_number, parse_constant=lambda name: None).raw_decode


def _bytes(path: Path, meter: Meter) -> Iterator[bytes]:
    """The file's content in chunks, unpacked where it is gzip, in at most `text_bytes`."""
    total = 0
    with path.open("rb") as file:
        packed = file.read(2) == GZIP
        file.seek(0)
        unpack = zlib.decompressobj(31)
        while data := file.read(CHUNK):
            parts = _unpacked(unpack, data) if packed else iter((data,))
            for part in parts:
                total += len(part)
                meter.clock()
                if total > meter.limits.text_bytes:
                    raise UnreadableProfile(
                        f"The trace is larger than {meter.limits.text_bytes >> 20} MB unpacked: profile fewer iterations."
                    )
                yield part
        if packed and not unpack.eof:
            raise UnreadableProfile("The compressed trace ends too early: the file is truncated, export it again.")


def _unpacked(unpack: Any, data: bytes) -> Iterator[bytes]:
    try:
        while data:
            if unpack.eof:  # another member, or padding: a trace has one
                return
            yield unpack.decompress(data, CHUNK)
            data = unpack.unconsumed_tail
    except zlib.error:
        raise UnreadableProfile("The compressed trace is damaged: gzip cannot unpack it, export it again.") from None


def texts(path: Path, meter: Meter) -> Iterator[str]:
    """The file's text in pieces. UTF-8, or UTF-16 with its mark; bytes that are neither become U+FFFD."""
    decoder: codecs.IncrementalDecoder | None = None
    for data in _bytes(path, meter):
        if decoder is None:
            wide = data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
            decoder = codecs.getincrementaldecoder("utf-16" if wide else "utf-8-sig")("replace")
        yield decoder.decode(data)
    if decoder is not None:
        yield decoder.decode(b"", final=True)


class Stream:
    """A window over the text; `value` takes one JSON value from its start."""

    def __init__(self, path: Path, meter: Meter) -> None:
        self._pieces = texts(path, meter)
        self._meter = meter
        self._text = ""
        self._at = 0
        self._before = 0  # characters already dropped

    def _more(self) -> bool:
        self._meter.clock()
        for piece in self._pieces:
            if piece:
                self._before += self._at
                self._text, self._at = self._text[self._at :] + piece, 0
                return True
        return False

    def peek(self) -> str:
        """The next character that is no space; "" at the end."""
        while True:
            match = _SPACE.match(self._text, self._at)
            self._at = match.end() if match else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def expect(self, chars: str) -> str:
        """Takes one of these characters."""
        char = self.peek()
        if not char or char not in chars:
            self._refuse(ended=not char)
        self._at += 1
        return char

    def value(self) -> Any:
        """The next value. Numbers that JSON cannot write (NaN) are None."""
        self.peek()
        while True:
            try:
                value, end = _DECODE(self._text, self._at)
            except RecursionError:
                raise UnreadableProfile("The file nests its values too deeply to be a trace.") from None
            except json.JSONDecodeError as error:
                cut = error.msg.startswith("Unterminated") or len(self._text) - error.pos < _LONGEST_WORD
                if not (cut and self._enough()):
                    rest = self._text[error.pos :].rstrip()
                    self._refuse(ended=cut and (not rest or rest[0] == '"' or any(w.startswith(rest) for w in _WORDS)))
                continue
            except ValueError:  # a number of thousands of digits
                self._refuse(ended=False)
            if end == len(self._text) and not isinstance(value, dict | list | str) and self._more():
                continue  # a number may go on
            self._at = end
            return value

    def _enough(self) -> bool:
        if len(self._text) - self._at > self._meter.limits.value_chars:
            raise UnreadableProfile(f"One value of the file is larger than {self._meter.limits.value_chars >> 20} MB.")
        return self._more()

    def _refuse(self, *, ended: bool) -> None:
        place = f"character {self._before + self._at:,}"
        if ended:
            raise UnreadableProfile(f"The file ends in the middle of its JSON, at {place}: it is truncated, export it again.")
        raise UnreadableProfile(f"The file is not valid JSON at {place}.")

    def items(self) -> Iterator[Any]:
        """The values of an array whose bracket comes next."""
        self.expect("[")
        if self.peek() == "]":
            self._at += 1
            return
        while True:
            self._meter.event()
            yield self.value()
            if self.expect(",]") == "]":
                return

    def members(self) -> Iterator[str]:
        """The keys of an object whose brace comes next; the caller takes each value before the next key."""
        self.expect("{")
        if self.peek() == "}":
            self._at += 1
            return
        while True:
            self._meter.event()
            if self.peek() != '"':
                self._refuse(ended=not self.peek())
            name = self.value()
            self.expect(":")
            yield name
            if self.expect(",}") == "}":
                return

    def end(self) -> None:
        """Nothing may follow."""
        if self.peek():
            self._refuse(ended=False)
